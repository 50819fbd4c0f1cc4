from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.doom.cfg import STOCK_CFGS, cfg_path, load_cfg, wads_of
from rollouts.errors import ScenarioError
from rollouts.scenarios.scenario import GameFile


def test_a_stock_cfg_goes_by_its_name_and_another_by_its_path(tmp_path: Path) -> None:
    assert "basic.cfg" in STOCK_CFGS
    assert cfg_path("basic.cfg").is_file()
    mine = tmp_path / "mine.cfg"
    mine.write_text("doom_map = map01\n")
    assert cfg_path(str(mine)) == mine
    assert cfg_path(GameFile("mine.cfg", mine.read_bytes())).read_text() == "doom_map = map01\n"
    with pytest.raises(ScenarioError, match=r"no cfg 'absent\.cfg'"):
        cfg_path("absent.cfg")


@pytest.mark.parametrize("name", STOCK_CFGS)
def test_every_stock_cfg_is_understood_and_names_no_file_of_elsewhere(name: str) -> None:
    assert wads_of(cfg_path(name)) == (None, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Shoot monsters.", "Syntax error in line #1"),
        ("doom_map = map01\ncolour = red", "Unsupported key: colour in line #2"),
        ("available_buttons = { FLY }", "Unsupported value in lines 1-1: fly"),
    ],
)
def test_a_line_that_the_engine_would_leave_out_is_refused_without_a_word_on_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    path = tmp_path / "wrong.cfg"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=rf"wrong\.cfg is not understood: {complaint}"):
        load_cfg(path)
    assert capfd.readouterr().err == ""


def test_the_wads_of_a_cfg_are_those_it_names_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "own.cfg"
    path.write_text("doom_scenario_path = maps/own.wad\ndoom_game_path = base.wad\n")
    assert wads_of(path) == (tmp_path / "maps/own.wad", tmp_path / "base.wad")
