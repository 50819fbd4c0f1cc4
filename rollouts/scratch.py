"""Temporary folders that go with their owner: when it removes them, when it ends, or, after it was killed, when another
process of the project sweeps. A lock that the kernel gives back says whether the owner lives."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
import weakref
from pathlib import Path

PREFIX = "doom-rollouts-"
MIN_AGE_S = 60.0
_LOCK = "lock"
_OWN_NAME = re.compile(PREFIX + r"[a-z]+-[a-z0-9_]{8}")


class ScratchFolder:
    """A private folder of this process, empty but for its lock. `kind` is for people. Errors: `OSError`."""

    def __init__(self, kind: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-"))
        lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._discard = weakref.finalize(self, _discard, self.path, lock, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Delete the folder. May be called twice; also happens when this object or the process ends."""
        self._discard()


def sweep_scratch(min_age_s: float = MIN_AGE_S, place: Path | None = None) -> list[Path]:
    """Remove old folders of our user whose owner is gone, from `place` or where temporary files lie.

    Returns what was removed.
    """
    removed = []
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if is_old(folder, min_age_s) and _is_ownerless(folder):
                _delete(folder)
                removed.append(folder)
    return removed


def is_old(path: Path, min_age_s: float) -> bool:
    """Is it ours, and has nothing changed in it for so long?"""
    status = path.stat()
    return status.st_uid == os.getuid() and time.time() - status.st_mtime >= min_age_s


def _discard(path: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            _delete(path)
        os.close(lock)


def _delete(folder: Path) -> None:
    """The lock goes last: until then a sweep can finish what a kill interrupts."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != _LOCK:
            entry.unlink(missing_ok=True)
    (folder / _LOCK).unlink(missing_ok=True)
    folder.rmdir()


def _is_ownerless(folder: Path) -> bool:
    """No lock is there only where the owner was killed as it began or ended: then there is nothing else either."""
    if not any(folder.iterdir()):
        return _OWN_NAME.fullmatch(folder.name) is not None
    with (folder / _LOCK).open("r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
