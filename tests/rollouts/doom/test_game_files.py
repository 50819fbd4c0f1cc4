from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rollouts.doom.game_files import check_wad, here
from rollouts.errors import ScenarioError
from rollouts.scenarios.scenario import GameFile


def test_what_was_read_elsewhere_lies_here_once() -> None:
    path = here(GameFile("my.wad", b"PWADone"))
    assert (path.name, path.read_bytes()) == ("my.wad", b"PWADone")
    assert here(GameFile("my.wad", b"PWADone")) == path
    assert here(GameFile("my.wad", b"PWADtwo")).read_bytes() == b"PWADtwo"
    assert path.read_bytes() == b"PWADone"


def test_a_copy_that_somebody_removed_is_made_again() -> None:
    file = GameFile("again.wad", b"PWAD")
    here(file).unlink()
    assert here(file).read_bytes() == b"PWAD"


def test_a_path_stays_as_it_is() -> None:
    assert here("/somewhere/my.wad") == Path("/somewhere/my.wad")


LUMP = struct.pack("<ii8s", 0, 0, b"MAP01")


@pytest.mark.parametrize("magic", [b"IWAD", b"PWAD"])
def test_a_wad_is_known_by_its_header(magic: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.wad"
    path.write_bytes(struct.pack("<4sii", magic, 1, 12) + LUMP)
    assert check_wad(path) == path


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"ZWAD" + struct.pack("<ii", 1, 12) + LUMP, "it begins with b'ZWAD', not with IWAD or PWAD"),
        (b"", "it begins with b'', not with IWAD or PWAD"),
        (b"PWAD1234", "it ends after 8 bytes, in its header"),
        (b"PWAD" + b"\xff" * 8, "its directory of -1 lumps from byte -1 on is not within its 12 bytes"),
        (b"PWAD" + struct.pack("<ii", 2, 12) + LUMP, "its directory of 2 lumps from byte 12 on is not within its 28"),
        (b"PWAD" + struct.pack("<ii", 1, 4) + LUMP, "its directory of 1 lumps from byte 4 on is not within its 28"),
    ],
)
def test_what_is_no_wad_is_refused_by_what_is_wrong(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "some.wad"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as told:
        check_wad(path)
    assert str(told.value).startswith(f"wad {path} is no wad: {says}")
