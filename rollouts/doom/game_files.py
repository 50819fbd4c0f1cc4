"""Files that a game is played with: those that were read elsewhere are put on this machine's scratch disk, once."""

from __future__ import annotations

import functools
import struct
from pathlib import Path

from rollouts.errors import ScenarioError
from rollouts.scenarios.scenario import GameFile
from rollouts.scratch import ScratchFolder

KIND = "files"
WAD_MAGIC = (b"IWAD", b"PWAD")
_HEADER = struct.Struct("<4sii")
_BYTES_A_LUMP = 16


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


def why_no_wad(head: bytes, size: int) -> str | None:
    """What is wrong with a file of `size` bytes that begins with `head` (12 bytes or more); None for a wad.

    By its header: magic, number of lumps, where their directory begins (16 bytes a lump). The engine would silently
    play the stock map instead of what has another magic, and dies of a directory that is not there.
    """
    if head[:4] not in WAD_MAGIC:
        return f"it begins with {head[:4]!r}, not with {' or '.join(magic.decode() for magic in WAD_MAGIC)}"
    if len(head) < _HEADER.size:
        return f"it ends after {len(head)} bytes, in its header"
    _, lumps, directory = _HEADER.unpack(head[: _HEADER.size])
    if lumps < 1 or directory < _HEADER.size or directory + _BYTES_A_LUMP * lumps > size:
        return f"its directory of {lumps:,} lumps from byte {directory:,} on is not within its {size:,} bytes"
    return None


def check_wad(path: Path) -> Path:
    """The absolute path of a file that is a wad. Errors: `ScenarioError`."""
    try:
        with path.open("rb") as file:
            head, size = file.read(_HEADER.size), path.stat().st_size
    except OSError as error:
        raise ScenarioError(f"wad {path} cannot be read: {error.strerror}") from error
    if (fault := why_no_wad(head, size)) is not None:
        raise ScenarioError(f"wad {path} is no wad: {fault}")
    return path.absolute()
