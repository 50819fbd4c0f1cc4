import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rollouts.errors import ScenarioError, UsageError
from rollouts.records import Snapshot
from rollouts.scenarios.registry import PUBLISHED_SCENARIOS, SCENARIOS, find_scenario
from rollouts.scenarios.scenario import Action, Metric, Outcome, Scenario

DEFEND, GATHER = SCENARIOS["defend_the_center"], SCENARIOS["health_gathering"]


def test_the_published_protocols() -> None:
    assert DEFEND.options == ("attack", "turn left", "turn right")
    assert GATHER.options == ("move forward", "turn left", "turn right")
    assert (DEFEND.seeds[0], DEFEND.seeds[-1], len(DEFEND.seeds)) == (42106076, 42106083, 8)
    assert (GATHER.seeds[0], GATHER.seeds[-1], len(GATHER.seeds)) == (41006394, 41006401, 8)
    assert [(s.name, s.tics, s.step_cap) for s in (DEFEND, GATHER)] == [(n, 4, 300) for n in PUBLISHED_SCENARIOS]


def test_every_single_player_scenario_of_the_package_is_there() -> None:
    assert set(SCENARIOS) == {
        *("basic", "simpler_basic", "rocket_basic", "deadly_corridor", "defend_the_center", "defend_the_line"),
        *("health_gathering", "health_gathering_supreme", "my_way_home", "predict_position", "take_cover"),
        "deathmatch",
    }


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda s: s.name)
def test_every_scenario_has_seeds_texts_and_measured_baselines(scenario: Scenario) -> None:
    assert scenario.baselines is not None
    assert (scenario.baselines.oracle is None) == (scenario.teacher is None)
    assert scenario.baselines.oracle is None or scenario.baselines.oracle > scenario.baselines.random
    assert len(scenario.seeds) == (8 if scenario.name in PUBLISHED_SCENARIOS else 32)
    assert scenario.tics == 4
    assert all(len(action.buttons) == 1 for action in scenario.actions)


def test_metrics() -> None:
    assert DEFEND.metric.name == "kills"
    nothing = Outcome(0.0, None)
    assert DEFEND.metric.value(Snapshot(0, kills=11), 150, 4, nothing) == 11
    assert GATHER.metric.name == "survival_s"
    assert GATHER.metric.value(Snapshot(0), 300, 4, nothing) == pytest.approx(34.2857, abs=1e-4)


@pytest.mark.parametrize("functions", [{}, {"measure": lambda last, n, tics: 1.0, "of_outcome": lambda outcome: 1.0}])
def test_a_metric_has_one_function(functions: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match="either measure or of_outcome"):
        Metric("luck", "points", **functions)


def test_an_unknown_name_is_a_usage_error_with_the_choices() -> None:
    with pytest.raises(UsageError, match=r"'dooom'.*defend_the_center, health_gathering"):
        find_scenario("dooom")


def test_a_users_scenario_is_found_by_module_and_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_scenarios.py").write_text(
        "from dataclasses import replace\nfrom rollouts.scenarios.registry import SCENARIOS\n"
        "MINE = replace(SCENARIOS['defend_the_center'], name='mine')\nNOT_ONE = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert find_scenario("my_scenarios:MINE").name == "mine"
    with pytest.raises(UsageError, match="is a int, not"):
        find_scenario("my_scenarios:NOT_ONE")
    with pytest.raises(UsageError, match="GONE"):
        find_scenario("my_scenarios:GONE")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": ()}, "actions"),
        ({"actions": (Action("go"), Action("go"))}, "actions"),
        ({"engine": None}, "engine"),
        ({"tics": 0}, "tics"),
        ({"step_cap": 0}, "step cap"),
    ],
)
def test_a_scenario_that_contradicts_itself_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        replace(DEFEND, **change)  # type: ignore[arg-type]
