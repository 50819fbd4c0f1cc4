"""Files that a game is played with: those that were read elsewhere are put on this machine's scratch disk, once."""

from __future__ import annotations

import functools
from pathlib import Path

from rollouts.errors import ScenarioError
from rollouts.scenario import GameFile
from rollouts.scratch import ScratchFolder

KIND = "files"
WAD_MAGIC = (b"IWAD", b"PWAD")


def here(file: str | GameFile) -> Path:
    """A path of this machine with that file: its own, or a copy of what was read. Errors: `ScenarioError`."""
    if isinstance(file, str):
        return Path(file)
    path = _scratch().path / file.sha256 / file.name
    if not path.exists():
        try:
            path.parent.mkdir(exist_ok=True)
            whole = path.with_name(f"{file.name}.part")
            whole.write_bytes(file.content)
            whole.rename(path)
        except OSError as error:
            raise ScenarioError(f"{file.name} cannot be written to {path.parent}: {error.strerror}") from error
    return path


@functools.cache
def _scratch() -> ScratchFolder:
    """This process's own; it goes with the process."""
    return ScratchFolder(KIND)


def is_wad(content: bytes) -> bool:
    """By its first four bytes: the engine would silently play the stock map instead of what is none."""
    return content[:4] in WAD_MAGIC


def check_wad(path: Path) -> Path:
    """The absolute path of a file that is a wad. Errors: `ScenarioError`."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ScenarioError(f"wad {path} cannot be read: {error.strerror}") from error
    if not is_wad(magic):
        raise ScenarioError(f"wad {path} is no wad: it begins with {magic!r}, not with IWAD or PWAD")
    return path.absolute()
