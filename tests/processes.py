"""The processes that a test's own process, or a driver, has started."""

from __future__ import annotations

import time
from contextlib import suppress

import psutil


def descendants(name: str, of: int | None = None) -> list[psutil.Process]:
    """Living descendants of process `of` (None: this one) whose names begin so, oldest id first.

    The kernel keeps 15 characters of a name; those that end meanwhile are left out.
    """
    found: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(of).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if process.name().startswith(name[:15]):
                    found.append(process)
    return sorted(found, key=lambda process: process.pid)


def gone(name: str, patience_s: float = 5.0) -> bool:
    """Whether no descendant of that name is left, after a moment."""
    over = time.monotonic() + patience_s
    while descendants(name) and time.monotonic() < over:
        time.sleep(0.05)
    return not descendants(name)
