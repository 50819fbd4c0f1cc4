from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.doom.game_files import check_wad, here, is_wad
from rollouts.errors import ScenarioError
from rollouts.scenario import GameFile


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


@pytest.mark.parametrize(
    ("content", "is_one"), [(b"IWAD1234", True), (b"PWAD", True), (b"ZWAD", False), (b"PWA", False), (b"", False)]
)
def test_a_wad_is_known_by_its_magic(content: bytes, is_one: bool, tmp_path: Path) -> None:
    assert is_wad(content) is is_one
    path = tmp_path / "some.wad"
    path.write_bytes(content)
    if is_one:
        assert check_wad(path) == path
    else:
        with pytest.raises(ScenarioError, match=r"some\.wad is no wad: it begins with"):
            check_wad(path)
