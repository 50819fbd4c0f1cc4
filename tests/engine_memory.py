"""Shared memory of engines that nobody uses any more. Many tests run at once, and each answers for its own alone."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import psutil

from rollouts.doom.engine_home import SHARED_MEMORY, SHARED_PREFIXES

PERIOD_S = 0.02


class EngineMemory:
    """While entered, notes the segments that appear and are mapped by a process of which `is_own` holds."""

    def __init__(self, is_own: Callable[[psutil.Process], bool]) -> None:
        self._is_own = is_own
        self._before = _names()
        self._own: set[str] = set()
        self._others: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> EngineMemory:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def lost(self, patience_s: float = 2.0) -> set[str]:
        """Own segments that exist, after a moment, though no process maps them."""
        over = time.monotonic() + patience_s
        while (found := self._unmapped()) and time.monotonic() < over:
            time.sleep(PERIOD_S)
        return found

    def _unmapped(self) -> set[str]:
        left = self._own & _names()
        return left - set(_users(left))

    def _watch(self) -> None:
        while not self._over.wait(PERIOD_S):
            new = _names() - self._before - self._own - self._others
            for name, pids in _users(new).items():
                mine = any(self._owns(pid) for pid in pids)
                (self._own if mine else self._others).add(name)

    def _owns(self, pid: int) -> bool:
        with contextlib.suppress(psutil.Error):
            return self._is_own(psutil.Process(pid))
        return False


def _names() -> set[str]:
    return {path.name for path in SHARED_MEMORY.glob("ViZDoom*") if path.name.startswith(SHARED_PREFIXES)}


def _users(names: set[str]) -> dict[str, list[int]]:
    """The processes that map each of them; those that none maps are left out."""
    found: dict[str, list[int]] = {}
    for maps in Path("/proc").glob("[0-9]*/maps") if names else ():
        with contextlib.suppress(OSError):
            text = maps.read_text(errors="replace")
            for name in names:
                if name in text:
                    found.setdefault(name, []).append(int(maps.parent.name))
    return found
