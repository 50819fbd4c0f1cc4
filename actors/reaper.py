"""Sees to it that a Ray of our own ends with us even when we are killed.

Its servers die with their starter, but its agents first try for minutes to reach the servers, and a worker that has
only just been started for half a minute. A shell waits at the end of a pipe that breaks when this process is gone, and
then kills what it was told to.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable

import psutil

_SCRIPT = """
trap '' INT TERM HUP
read -r _
kill -9 "$@"
grep -lsF -e "$STORE" /proc/[0-9]*/cmdline | while IFS=/ read -r _ _ pid _; do kill -9 "$pid"; done
"""


class Reaper:
    """When this process dies without `close`, kills `processes`, which must be as good as certain to live that long,
    and then whoever has the name `store` in its command line, as every worker of one Ray has that of its object store.
    """

    def __init__(self, processes: Iterable[psutil.Process], store: str) -> None:
        command = ["/bin/sh", "-c", _SCRIPT, "reaper", *(str(process.pid) for process in processes)]
        self._shell = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "STORE": store},
        )

    def close(self) -> None:
        """Kill nothing."""
        self._shell.kill()
        self._shell.communicate()
