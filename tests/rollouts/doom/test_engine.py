import hashlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import vizdoom

from rollouts.doom.engine import ENGINE_VERSION, Engine, provenance
from rollouts.errors import EngineLost, ScenarioError
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.scenario import EngineSetup
from tests.engine_memory import EngineMemory

SETUP = EngineSetup("defend_the_center.cfg")
BUTTONS = ("ATTACK", "TURN_LEFT", "TURN_RIGHT")
STOCK = Path(vizdoom.scenarios_path)


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(SETUP, BUTTONS, "indexed")
    yield engine
    engine.close()


def test_buttons_stand_in_the_scenarios_order(engine: Engine) -> None:
    assert [button.name for button in engine.game.get_available_buttons()] == list(BUTTONS)


def test_a_killed_engine_is_lost_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with EngineMemory(lambda process: process.pid == os.getpid()) as memory:
        engine = Engine(SETUP, BUTTONS, "indexed")
        engine.seek(1, 0)
        pid = engine.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineLost, match="engine lost"), engine.watched():
            engine.game.make_action([0.0, 0.0, 0.0], 4)
        engine.close()
        assert memory.lost() == set()
    assert engine.pid() is None
    assert list(tmp_path.iterdir()) == []


def test_close_does_not_wait_for_a_stopped_engine(engine: Engine) -> None:
    pid = engine.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    engine.close()
    engine.close()
    assert time.monotonic() - started < 15  # it would wait for ever
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("setup", "buttons", "message"),
    [
        (EngineSetup("missing.cfg"), BUTTONS, "no cfg 'missing.cfg'"),
        (replace(SETUP, wad="/missing.wad"), BUTTONS, "/missing.wad cannot be read"),
        (replace(SETUP, variables=("LUCK",)), BUTTONS, "no variable 'LUCK'"),
        (SETUP, ("FLY",), "no button 'FLY'"),
    ],
)
def test_wrong_names_are_scenario_errors(setup: EngineSetup, buttons: tuple[str, ...], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Engine(setup, buttons, "indexed")


def test_a_wad_that_is_none_is_refused(tmp_path: Path) -> None:
    wad = tmp_path / "fake.wad"
    wad.write_bytes(b"<html>not found</html>")
    with pytest.raises(ScenarioError, match=r"fake\.wad is no wad: it begins with b'<htm'"):
        Engine(replace(SETUP, wad=str(wad)), BUTTONS, "indexed")


def test_a_button_that_the_engine_drops_is_a_mismatch() -> None:
    with pytest.raises(ScenarioError, match="buttons"):
        Engine(SETUP, ("ATTACK", "ATTACK"), "indexed")


def test_relative_paths_hold_although_the_engine_lives_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("defend_the_center.cfg", "defend_the_center.wad"):
        (tmp_path / name).write_bytes((STOCK / name).read_bytes())
    (tmp_path / "defend_the_center.cfg").rename(tmp_path / "my.cfg")
    monkeypatch.chdir(tmp_path)
    engine = Engine(EngineSetup("my.cfg", wad="defend_the_center.wad"), BUTTONS, "indexed")
    engine.seek(42106076, 0)
    engine.close()
    assert {path.name for path in tmp_path.iterdir()} == {"my.cfg", "defend_the_center.wad"}


def test_provenance_hashes_the_files_that_are_played() -> None:
    found = provenance(SCENARIOS["health_gathering"])
    assert found is not None
    assert (found.engine_version, found.cfg, found.wad) == (
        ENGINE_VERSION,
        "health_gathering.cfg",
        "health_gathering.wad",
    )
    assert found.cfg_sha256 == hashlib.sha256((STOCK / "health_gathering.cfg").read_bytes()).hexdigest()
    assert found.wad_sha256 == hashlib.sha256((STOCK / "health_gathering.wad").read_bytes()).hexdigest()
    assert found.game == "freedoom2.wad"


def test_provenance_of_a_map_inside_the_base_game_has_no_wad(tmp_path: Path) -> None:
    cfg = tmp_path / "plain.cfg"
    cfg.write_text("doom_map = map01\navailable_buttons = { ATTACK }\n")
    scenario = replace(SCENARIOS["health_gathering"], engine=EngineSetup(str(cfg)))
    found = provenance(scenario)
    assert found is not None
    assert found.wad is None
