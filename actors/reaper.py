"""Sees to it that a Ray of our own ends with us even when we are killed.

Its servers die with their starter, but its agents first try for minutes to reach the servers. A shell waits at the
end of a pipe that breaks when this process is gone, and then kills what it was told to.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

import psutil

_SCRIPT = """trap '' INT TERM HUP; read -r _; kill -9 "$@" 2>/dev/null"""


class Reaper:
    """Kills `processes` when this process dies without `close`. They must be as good as certain to live that long."""

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        command = ["/bin/sh", "-c", _SCRIPT, "reaper", *(str(process.pid) for process in processes)]
        self._shell = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        """Kill nothing."""
        self._shell.kill()
        self._shell.communicate()
