"""Every stock scenario on the real engine: what its teacher and its text speak of is really there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from rollouts.doom.environment import make_environment
from rollouts.episode import EpisodeRules, run_episode
from rollouts.policies.registry import make_policy
from rollouts.records import Episode, EpisodeKey
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.rules import Rules
from rollouts.scenarios.scenario import Environment, Scenario
from tests.doubles import Recording

STEP_CAP = 100


@pytest.fixture(scope="module", params=SCENARIOS.values(), ids=lambda s: s.name)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    found: Scenario = request.param
    return found


@pytest.fixture(scope="module")
def environment(scenario: Scenario) -> Iterator[Environment]:
    with closing(make_environment(scenario, None)) as made:
        yield made


def play(
    scenario: Scenario, environment: Environment, policy: str, seed: int, step_cap: int = STEP_CAP
) -> tuple[Episode, Recording]:
    rubric, recording = next(iter(scenario.instructions)), Recording()
    rules = EpisodeRules(scenario, scenario.tics, step_cap, run_seed=0)
    key = EpisodeKey(scenario.name, rubric, policy, seed, 0)
    return run_episode(key, rules, environment, make_policy(policy, scenario), recording), recording


@pytest.mark.slow
def test_a_teachers_rules_and_the_text_come_from_what_is_seen(scenario: Scenario, environment: Environment) -> None:
    """The kinds and classes that rules and text name turn up, and the depth that they read is there."""
    who = "oracle" if scenario.teacher else "random"
    recordings = [play(scenario, environment, who, seed)[1] for seed in scenario.seeds[:3]]
    decisions = [decision for recording in recordings for decision in recording.decisions]
    seen = {word for d in decisions for thing in d.snapshot.things for word in (thing.kind, thing.name)}
    if isinstance(scenario.teacher, Rules):
        assert {rule.see for rule in scenario.teacher.rules if rule.see} <= seen
        assert all(d.snapshot.depth for d in decisions if any(rule.reads_depth for rule in scenario.teacher.rules))
    else:
        assert {d.teacher_action for d in decisions} == {None}
    assert "None" not in " ".join(d.state for d in decisions)
    assert len({d.state for d in decisions}) > 3


@pytest.mark.slow
def test_an_episode_of_random_ends_with_the_metric_that_its_rows_say(
    scenario: Scenario, environment: Environment
) -> None:
    episode, recording = play(scenario, environment, "random", scenario.seeds[1])
    reward = sum(d.transition.reward for d in recording.decisions)
    kills = recording.decisions[-1].transition.snapshot or recording.decisions[-1].snapshot
    expected = {
        "kills": float(kills.kills or 0),
        "survival_s": episode.steps * 4 / 35,
        "reward": reward,
        "goal": float(episode.end_reason == "goal"),
        "success": float(reward > 0),
    }
    assert episode.metric == pytest.approx(expected[scenario.metric.name])
    assert episode.n_out_of_schema == 0
    assert {d.effective_action for d in recording.decisions} <= set(scenario.options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["health_gathering", "health_gathering_supreme"])
def test_the_acid_floor_is_no_hit(name: str) -> None:
    """Turning on the spot, nothing but the floor takes health: 8 at most once in 32 tics."""
    scenario = SCENARIOS[name]
    with closing(make_environment(scenario, None)) as environment:
        before = environment.reset(scenario.seeds[0], 0).health
        steps = [environment.step("turn left", 4) for _ in range(40)]
    assert before is not None
    assert steps[-1].health_after is not None
    assert steps[-1].health_after < before
    assert [step.events for step in steps] == [()] * 40


@pytest.mark.slow
def test_touching_the_vest_is_the_goal() -> None:
    """Of these seeds at least one begins near the vest: the engine says +1 for it, and less than 0 without."""
    scenario = SCENARIOS["my_way_home"]
    with closing(make_environment(scenario, None)) as environment:
        episodes = [play(scenario, environment, "oracle", seed, step_cap=150)[0] for seed in scenario.seeds[:6]]
    assert {episode.end_reason for episode in episodes} == {"goal", "step_cap"}
    for episode in episodes:
        reached = episode.end_reason == "goal"
        assert (episode.metric, episode.terminated, episode.total_reward > 0.9) == (float(reached), reached, reached)
