from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rollouts.config import RunConfig, load_config
from rollouts.errors import UsageError
from rollouts.scenarios.registry import SCENARIOS

BOTH = ("defend_the_center", "health_gathering")


def load(flags: Mapping[str, object] | None = None, toml: Path | None = None, **env: str) -> RunConfig:
    return load_config(flags or {}, toml, env)


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_nothing_given_is_the_published_protocol() -> None:
    config = load()
    assert (config.scenarios, config.rubrics, config.policies) == (BOTH, ("rule",), ("oracle",))
    assert (config.seeds, config.episodes_per_seed, config.frames, config.pool) == (None, 1, "png", "ray")
    (defend, health) = config.resolved()
    assert config.seeds_of(defend) == tuple(range(42106076, 42106084))
    assert config.seeds_of(health) == tuple(range(41006394, 41006402))
    assert [(config.tics_of(s), config.step_cap_of(s)) for s in (defend, health)] == [(4, 300), (4, 300)]


def test_flags_win_over_the_file_and_the_file_over_the_environment(tmp_path: Path) -> None:
    toml = written(tmp_path, "tics = 7\nstep_cap = 20\n")
    config = load({"tics": 5, "actors": None}, toml, DOOM_ROLLOUTS_TICS="9", DOOM_ROLLOUTS_ACTORS="3")
    assert (config.tics, config.step_cap, config.actors) == (5, 20, 3)


def test_the_three_layers_spell_the_same_values(tmp_path: Path) -> None:
    toml = written(
        tmp_path,
        'scenario = "published"\nrubrics = ["both"]\npolicy = ["random", "oracle"]\nseeds = "0:3"\n'
        'episodes-per-seed = 2\ncpus_per_actor = 1\nframes = "none"\n',
    )
    flags = {
        "scenarios": ["published"],
        "rubrics": ["both"],
        "policies": ["random", "oracle"],
        "seeds": "0:3",
        "episodes_per_seed": "2",
        "cpus_per_actor": "1",
        "frames": "none",
    }
    environment = load(
        DOOM_ROLLOUTS_SCENARIO="published",
        DOOM_ROLLOUTS_RUBRICS="both",
        DOOM_ROLLOUTS_POLICIES="random, oracle",
        DOOM_ROLLOUTS_SEEDS="0:3",
        DOOM_ROLLOUTS_EPISODES_PER_SEED="2",
        DOOM_ROLLOUTS_CPUS_PER_ACTOR="1",
        DOOM_ROLLOUTS_FRAMES="none",
    )
    assert load(flags) == load(toml=toml) == environment
    assert environment.rubrics == ("rule", "bare")
    assert environment.policies == ("random", "oracle")
    assert environment.seeds == (0, 1, 2)


def test_published_beside_a_name_of_its_own_is_no_repetition() -> None:
    assert load({"scenarios": ["health_gathering", "published"]}).scenarios == BOTH[::-1]


def test_what_all_cannot_do_without_is_said() -> None:
    """Each refusal of `--scenario all` names the flags that mend it; with them it is taken."""
    with pytest.raises(UsageError, match="--rubric bare with a policy that needs no teacher, such as --policy random"):
        load({"scenarios": ["all"]})
    with pytest.raises(UsageError, match=r"'oracle' needs a teacher, .*'predict_position' has none: .*such as random"):
        load({"scenarios": ["all"], "rubrics": ["bare"]})
    load({"scenarios": ["all"], "rubrics": ["bare"], "policies": ["random"]})


def test_a_scenario_of_ones_own_cannot_take_the_name_of_one_that_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "arena_twin.py").write_text(
        "from dataclasses import replace\nfrom rollouts.scenarios.registry import SCENARIOS\n"
        "SAME = SCENARIOS['basic']\nTWIN = replace(SAME, step_cap=5)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UsageError, match='scenario "arena_twin:TWIN" calls itself "basic", as one that ships does'):
        load({"scenarios": ["arena_twin:TWIN"]})
    assert load({"scenarios": ["arena_twin:SAME"]}).resolved() == (SCENARIOS["basic"],)


def test_all_is_every_scenario() -> None:
    everything = load({"scenarios": ["all"], "rubrics": ["bare"], "policies": ["random"]}).scenarios
    assert everything == tuple(SCENARIOS)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"policies": ["random", "oracle"], "rubrics": ["bare"]}, ["oracle", "needs a teacher", "predict_position"]),
        ({"policies": ["random"]}, ["predict_position", '"rule"', "only bare", "--rubric bare", "--policy random"]),
    ],
)
def test_a_scenario_without_a_teacher_has_no_rule_and_no_oracle(flags: dict[str, object], named: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        load({"scenarios": ["predict_position"], **flags})
    assert [word for word in named if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"scenarios": ["defend_the_centre"]}, ["defend_the_centre", "defend_the_center", "health_gathering"]),
        ({"scenarios": []}, ["--scenario", "empty"]),
        ({"scenarios": ["no_such_module_xyz:A"]}, ["no_such_module_xyz:A"]),
        ({"scenarios": ["health_gathering"] * 2}, ["--scenario", "health_gathering", "twice"]),
        ({"policies": ["orakle"]}, ["orakle", "oracle", "random"]),
        ({"policies": ["oracle", "oracle"]}, ["--policy", "oracle", "twice"]),
        ({"rubrics": ["loose"]}, ["loose", "rule", "bare", "both"]),
        ({"frames": "gif"}, ["--frames", "gif", "png", "png-rgb", "jpeg", "none"]),
        ({"pool": "slurm"}, ["--pool", "slurm", "ray", "local"]),
        ({"seeds": "8:0"}, ["--seeds", "8:0"]),
        ({"tics": 0}, ["--tics", "0", "from 1"]),
        ({"tics": "four"}, ["--tics", "four", "whole number"]),
        ({"tics": "4.0"}, ["--tics", "4.0", "whole number"]),
        ({"tics": 2**31}, ["--tics", "2147483648"]),
        ({"step_cap": -1}, ["--step-cap", "-1"]),
        ({"actors": "0"}, ["--actors", "0"]),
        ({"episodes_per_seed": "-3"}, ["--episodes-per-seed", "-3"]),
        ({"episodes_per_unit": 0}, ["--episodes-per-unit", "0"]),
        ({"cpus_per_actor": -1}, ["--cpus-per-actor", "-1", "above 0"]),
        ({"cpus_per_actor": 0}, ["--cpus-per-actor", "0", "above 0"]),
        ({"cpus_per_actor": "nan"}, ["--cpus-per-actor", "nan", "finite"]),
        ({"cpus_per_actor": 1.5}, ["--cpus-per-actor", "1.5", "whole number"]),
        ({"gpus_per_actor": -0.5}, ["--gpus-per-actor", "-0.5"]),
        ({"node_labels": ["zone"]}, ["--node-label", "zone", "KEY=VALUE"]),
        ({"node_labels": ["zone=a b"]}, ["--node-label", "zone=a b", "KEY=VALUE"]),
        ({"node_labels": ["zone=a", "zone=b"]}, ["--node-label", "zone", "twice"]),
        ({"node_labels": ["zone=a", "zone=a"]}, ["--node-label", "zone=a", "twice"]),
        ({"node_labels": ["zone=a"], "pool": "local"}, ["--node-label", "--pool ray"]),
        ({"placement_timeout_s": 0}, ["--placement-timeout", "0", "above 0"]),
        ({"seed": -1}, ["--seed", "-1"]),
        ({"seed": 2**32}, ["--seed", "4294967296", "4294967295"]),
        ({"run_id": ""}, ["--run-id", '""']),
        ({"run_id": "a/b"}, ["--run-id", "a/b"]),
        ({"run_id": ".."}, ["--run-id", ".."]),
        ({"run_id": "C:\\x"}, ["--run-id", "C:\\x"]),
        ({"run_id": "one\ntwo"}, ["--run-id", "one two"]),
        ({"out": ""}, ["--out", "empty"]),
        ({"unit_timeout_s": 0}, ["--unit-timeout-s", "0"]),
        ({"metrics_port": 65536}, ["--metrics-port", "65536", "from 0 to 65535"]),
        ({"metrics_port": 9100, "pool": "local"}, ["--metrics-port", "--pool ray"]),
    ],
)
def test_a_wrong_value_is_one_line_naming_flag_value_and_choices(flags: Mapping[str, object], named: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        load(flags)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in named if word not in message] == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ticks = 4", ["run.toml", '"ticks"', 'did you mean "tics"?']),
        ("[run]\ntics = 4", ["run.toml", '"run"']),
        ('tics = "4x"', ["tics in ", "run.toml", "4x"]),
        ("tics = 4.0", ["tics in ", "4.0", "whole number"]),
        ("tics = true", ["tics in ", "True", "whole number"]),
        ("gpus_per_actor = inf", ["gpus_per_actor in ", "inf", "finite"]),
        ("scenarios = [1]", ["scenarios in ", "[1]", "list of texts"]),
        ('scenario = "all"\nscenarios = "all"', ["scenario", "scenarios", "same setting"]),
        ("out = 3", ["out in ", "3", "text"]),
        ('retry_failed = "perhaps"', ["retry_failed in ", "perhaps", "true or false"]),
        ("tics = = 4", ["run.toml", "not TOML"]),
    ],
)
def test_a_wrong_file_is_one_line_naming_file_and_key(tmp_path: Path, text: str, named: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        load(toml=written(tmp_path, text))
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in named if word not in message] == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.toml.*No such file"):
        load(toml=tmp_path / "absent.toml")


def test_an_unknown_variable_of_ours_is_an_error() -> None:
    with pytest.raises(UsageError, match=r'DOOM_ROLLOUTS_TICKS.*did you mean "DOOM_ROLLOUTS_TICS"'):
        load(DOOM_ROLLOUTS_TICKS="4")


def test_a_configuration_survives_json() -> None:
    config = load({"seeds": "1,5", "actors": 2, "gpus_per_actor": 0.25, "variables": ["POSITION_X"]})
    assert RunConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config


def test_a_recorded_setting_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="colour"):
        RunConfig.from_dict({**RunConfig().as_dict(), "colour": 1})
