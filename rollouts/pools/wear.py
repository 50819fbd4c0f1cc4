"""When a worker's process has done enough: engines and their bindings leak, and only a new process frees it."""

from __future__ import annotations

import time
from contextlib import suppress

import psutil

_CHILDREN_EVERY_S = 10.0


class Wear:
    """Counts episodes and looks at the memory of this process and its children (engines), in MiB."""

    def __init__(self, most_episodes: int | None, most_mb: int | None) -> None:
        self._most_episodes = most_episodes
        self._most_mb = most_mb
        self._episodes = 0
        self._process = psutil.Process()
        self._children_mb = 0.0
        self._look_again = 0.0

    def worn_out(self, episodes: int) -> str | None:
        """Add so many episodes; why the process should be replaced, where it should."""
        self._episodes += episodes
        if self._most_episodes is not None and self._episodes >= self._most_episodes:
            return f"{self._episodes} episodes"
        if self._most_mb is not None and (used_mb := self._memory_mb()) > self._most_mb:
            return f"{used_mb:.0f} MiB of memory"
        return None

    def _memory_mb(self) -> float:
        """The children's share, slow to get, is at most ten seconds old."""
        if time.monotonic() >= self._look_again:
            self._children_mb = sum(map(_rss_mb, self._process.children(recursive=True)))
            self._look_again = time.monotonic() + _CHILDREN_EVERY_S
        return _rss_mb(self._process) + self._children_mb


def _rss_mb(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        return float(process.memory_info().rss) / 2**20
    return 0.0
