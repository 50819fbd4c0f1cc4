from __future__ import annotations

import json
from typing import Any

import pytest

from rollouts.config import RunConfig, load_config
from rollouts.errors import UsageError
from rollouts.identity import RunFacts, check_identity, default_run_id, digest, identity
from rollouts.records import PolicyDescription


def described(name: str, **settings: object) -> PolicyDescription:
    return PolicyDescription(name=name, kind="rule", settings=settings)


FACTS = RunFacts(
    engine_version="1.3.1",
    provenance={name: {"cfg_sha256": f"{name}-cfg"} for name in ("defend_the_center", "health_gathering")},
    descriptions={name: described(name) for name in ("oracle", "random")},
)


def config(**flags: object) -> RunConfig:
    return load_config({"scenarios": ["defend_the_center"], **flags}, None, {})


def of(facts: RunFacts = FACTS, **flags: object) -> dict[str, Any]:
    return identity(config(**flags), facts)


@pytest.mark.parametrize(
    "flags",
    [
        {"actors": 7},
        {"pool": "local"},
        {"cpus_per_actor": 0.5},
        {"gpus_per_actor": 1},
        {"node_labels": ["zone=a"], "placement_timeout_s": 5},
        {"out": "s3://elsewhere"},
        {"episodes_per_unit": 3},
        {"unit_timeout_s": 9},
        {"recycle_after": 5},
        {"retry_failed": True},
        {"tics": 4},
    ],
)
def test_where_and_how_fast_is_no_part_of_identity(flags: dict[str, object]) -> None:
    assert digest(of(**flags)) == digest(of())


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ({"scenarios": ["health_gathering"]}, "scenarios.health_gathering.tics"),
        ({"rubrics": ["bare"]}, "rubrics"),
        ({"policies": ["random"]}, "policies.random"),
        ({"seeds": "0:8"}, "seeds.defend_the_center"),
        ({"tics": 5}, "scenarios.defend_the_center.tics"),
        ({"step_cap": 5}, "scenarios.defend_the_center.step_cap"),
        ({"frames": "none"}, "frames"),
        ({"seed": 1}, "run_seed"),
        ({"variables": ["POSITION_X"]}, "variables"),
        ({"realtime": "hold"}, "realtime.meanwhile"),
        ({"realtime": "idle", "latency_ms": 5.0}, "realtime.latency_ms"),
    ],
)
def test_what_the_data_depends_on_is_named_when_it_differs(flags: dict[str, object], field: str) -> None:
    with pytest.raises(UsageError, match='run "r" exists with another identity') as caught:
        check_identity(of(), of(**flags), "r")
    assert field in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_engine_and_its_files_are_identity() -> None:
    newer = RunFacts("1.3.2", {"defend_the_center": {"cfg_sha256": "changed"}}, FACTS.descriptions)
    with pytest.raises(UsageError, match=r"engine\.version") as caught:
        check_identity(of(), of(newer), "r")
    assert "scenarios.defend_the_center.cfg_sha256" in str(caught.value)


def test_a_policys_settings_are_identity_but_not_where_its_endpoint_is() -> None:
    def with_settings(**settings: object) -> dict[str, Any]:
        facts = RunFacts("1.3.1", FACTS.provenance, {"oracle": described("oracle", **settings)})
        return of(facts)

    assert digest(with_settings(base_url="http://a")) == digest(with_settings(base_url="http://b"))
    assert digest(with_settings(temperature=0.0)) != digest(with_settings(temperature=1.0))


def test_the_policy_inside_a_mixture_is_identity_but_not_where_its_endpoint_is() -> None:
    def with_inner(**settings: object) -> dict[str, Any]:
        mixed = PolicyDescription("mixture:0.5:chat", "model", inner=described("chat", **settings))
        return of(RunFacts("1.3.1", FACTS.provenance, {"oracle": mixed}))

    assert digest(with_inner(base_url="http://a")) == digest(with_inner(base_url="http://b"))
    with pytest.raises(UsageError, match=r"policies\.oracle\.inner\.settings\.temperature is 0\.0 there, 1\.0 here"):
        check_identity(with_inner(temperature=0.0), with_inner(temperature=1.0), "r")


def test_a_run_that_is_not_in_real_time_has_no_word_about_it() -> None:
    """So that runs made before there was real time keep their names."""
    assert "realtime" not in of()
    assert all("inner" not in who for who in of()["policies"].values())


def test_the_same_identity_passes_also_after_json() -> None:
    check_identity(json.loads(json.dumps(of())), of(), "r")


def test_so_do_settings_that_json_has_in_another_form() -> None:
    facts = RunFacts("1.3.1", {}, {"oracle": described("oracle", layers=(64, 32), bins={1: 0.5})})
    check_identity(json.loads(json.dumps(of(facts))), of(facts), "r")


@pytest.mark.parametrize("grown", [{"seeds": "0:9"}, {"seeds": "0:8", "episodes_per_seed": 2}])
def test_more_seeds_or_episodes_are_growth(grown: dict[str, object]) -> None:
    check_identity(of(seeds="0:8"), of(**grown), "r")


def test_fewer_seeds_or_episodes_are_a_difference() -> None:
    with pytest.raises(UsageError, match=r"seeds\.defend_the_center is 0:44 there, 0:30 here \(14 fewer: 30:44\)"):
        check_identity(of(seeds="0:44"), of(seeds="0:30"), "r")
    with pytest.raises(UsageError, match=r"\[3, 1\] there, \[3, 2\] here \(1 fewer: \[1\], 1 more: \[2\]\)"):
        check_identity(of(seeds="3,1"), of(seeds="3,2"), "r")
    with pytest.raises(UsageError, match="episodes_per_seed is 2 there, 1 here"):
        check_identity(of(episodes_per_seed=2), of(), "r")


def test_the_default_run_id_says_what_it_is_and_finds_itself_again() -> None:
    run_id = default_run_id(of(policies=["oracle", "random"]))
    assert run_id.startswith("doom-defend_the_center-rule-oracle.random-")
    assert run_id == default_run_id(of(policies=["oracle", "random"], actors=9))
    assert run_id != default_run_id(of(policies=["oracle", "random"], seeds="0:8"))


def test_a_long_or_strange_policy_name_still_gives_one_short_name() -> None:
    strange = RunConfig(scenarios=("defend_the_center",), policies=("../org/model:" + "x" * 300,))
    facts = RunFacts("1.3.1", FACTS.provenance, {strange.policies[0]: described(strange.policies[0])})
    run_id = default_run_id(identity(strange, facts))
    assert "/" not in run_id
    assert len(run_id) <= 78


def test_how_the_engine_is_set_up_is_part_of_identity_its_files_are_known_by_their_hashes() -> None:
    scenario = of()["scenarios"]["defend_the_center"]
    assert scenario["buttons"] == {"attack": ["ATTACK"], "turn left": ["TURN_LEFT"], "turn right": ["TURN_RIGHT"]}
    assert scenario["metric"] == "kills"
    assert scenario["engine"]["timeout_tics"] is None
    assert {"cfg", "wad"}.isdisjoint(scenario["engine"])
    other = json.loads(json.dumps(of()))
    other["scenarios"]["defend_the_center"]["engine"]["timeout_tics"] = 100
    with pytest.raises(UsageError, match="timeout_tics is 100 there, "):
        check_identity(other, of(), "r")
