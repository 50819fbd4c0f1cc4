"""Where an engine lives: a private folder with its settings and log, and a launcher that ties it to its parent.

The engine writes `_vizdoom.ini` and `_vizdoom/` into its working folder, needs a writable HOME, and an orphan waits
for ever. So it is started in a folder of its own, its output goes to a file there, and the kernel kills it with us.
Knows nothing of scenarios and does not import the engine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from rollouts.errors import EngineLost
from rollouts.scratch import MIN_AGE_S, PREFIX, ScratchFolder, is_old

KIND = "engine"
SHARED_MEMORY = Path("/dev/shm")
SHARED_PREFIXES = ("ViZDoomSM", "ViZDoomMQ")
_INITIAL_IPC, _INITIAL_PID = "ipc:[4026531839]", "pid:[4026531836]"

_LAUNCHER = """\
import ctypes, os, signal, sys
home, parent, engine, *arguments = sys.argv[1:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL; survives exec
if os.getppid() != int(parent):
    os._exit(1)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent decides
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
os.chdir(home)
with open("pid", "w") as file:
    file.write(str(os.getpid()))
log = os.open("engine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.dup2(log, 1)
os.dup2(log, 2)
os.execve(engine, [engine, *arguments], {**os.environ, "HOME": home})
"""


class EngineHome:
    """A private folder for one engine process. Errors: `EngineLost` when there is no place for it."""

    def __init__(self, engine: Path) -> None:
        self._folder = _make_folder()
        self.path = self._folder.path
        self.launcher = self.path / "engine.sh"
        (self.path / "engine.py").write_text(_LAUNCHER)
        self.launcher.write_text(self._script(engine))
        self.launcher.chmod(0o700)
        if not os.access(self.launcher, os.X_OK):
            self.remove()
            raise EngineLost(f"{self.path.parent} does not allow programs to run: set TMPDIR to a folder that does")

    def _script(self, engine: Path) -> str:
        command = [sys.executable, "-IS", self.path / "engine.py", self.path, os.getpid(), engine]
        return f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n'

    @property
    def config(self) -> Path:
        """Where the engine keeps its own settings."""
        return self.path / "_vizdoom.ini"

    def pid(self) -> int | None:
        """The engine's process id while it is a child of ours, else None."""
        try:
            pid = int((self.path / "pid").read_text())
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
        return pid if parent == os.getpid() else None

    def kill(self) -> None:
        """SIGKILL to the engine if it lives: works on a stopped or hung one too."""
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def last_words(self) -> str:
        """The last line that the engine printed, for a message about its death."""
        with contextlib.suppress(OSError):
            lines = (self.path / "engine.log").read_text(errors="replace").split("\n")
            return next((line.strip()[-200:] for line in reversed(lines) if line.strip()), "")
        return ""

    def remove(self) -> None:
        """Delete the folder. May be called twice; also happens when this object or the process ends."""
        self._folder.remove()


def _make_folder() -> ScratchFolder:
    try:
        return ScratchFolder(KIND)
    except OSError as error:
        raise EngineLost(f"the engine needs a writable temporary folder: set TMPDIR to one ({error})") from error


@functools.cache
def check_program(program: Path) -> None:
    """`EngineLost` with a clear line when the program or a library that it needs is missing.

    The engine library does not survive a program that ends before it answers, so this is asked beforehand.
    """
    if not os.access(program, os.X_OK):
        raise EngineLost(f"the engine's program {program} is missing or may not run: install vizdoom again")
    if sys.platform != "linux":
        return
    environment = {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}  # the loader lists the libraries and runs nothing
    listed = subprocess.run([program], env=environment, capture_output=True, text=True, check=False).stdout
    missing = [line.split()[0] for line in listed.splitlines() if line.endswith("not found")]
    if missing:
        raise EngineLost(f"the engine needs {', '.join(missing)}, which this system does not have: install it")


def sweep_shared_memory(min_age_s: float = MIN_AGE_S, folder: Path = SHARED_MEMORY) -> list[Path]:
    """Remove shared memory that dead engines left: of our user, old, mapped by no live process.

    Does nothing where live users of the memory may be out of sight (a container on its host's memory).
    """
    if not folder.is_dir() or _others_are_hidden():
        return []
    old = [path for path in folder.iterdir() if path.name.startswith(SHARED_PREFIXES) and is_old(path, min_age_s)]
    mapped = _mapped_names() if old else set()
    removed = []
    for path in old:
        if path.name not in mapped:
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(path)
    return removed


def is_engine(process: psutil.Process) -> bool:
    """An engine, or its launcher: it ends with its parent, whose library crashes where it ends first."""
    return any(f"{PREFIX}{KIND}-" in word for word in process.cmdline())


def unlink_shared_memory(pid: int) -> None:
    """Take away the names of the segments that process `pid` maps. Whoever maps them keeps them, and they go with the
    last of these, so that no kill can leave any."""
    with contextlib.suppress(OSError):
        for name in _names_in(Path(f"/proc/{pid}/maps")):
            (SHARED_MEMORY / name).unlink(missing_ok=True)


def _others_are_hidden() -> bool:
    try:
        ipc, pid = os.readlink("/proc/self/ns/ipc"), os.readlink("/proc/self/ns/pid")
    except OSError:
        return True
    return ipc == _INITIAL_IPC and pid != _INITIAL_PID


def _mapped_names() -> set[str]:
    """Names of the engine segments that any visible process maps."""
    names = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            names |= _names_in(maps)
    return names


def _names_in(maps: Path) -> set[str]:
    lines = maps.read_text(errors="replace").splitlines()
    names = {line.rpartition("/")[2].removesuffix(" (deleted)") for line in lines}
    return {name for name in names if name.startswith(SHARED_PREFIXES)}
