"""Real time on a small world that counts tics: what passes while a policy thinks, and what the row says of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rollouts.episode import EpisodeFailed, EpisodeRules, run_episode
from rollouts.policies.base import Policy, PolicyContext
from rollouts.policies.oracle import OraclePolicy
from rollouts.policies.registry import make_policy
from rollouts.realtime import Meanwhile, RealTime
from rollouts.records import Answer, Decision, Episode, EpisodeKey, Snapshot, Transition
from rollouts.scenarios.measures import SURVIVAL
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.scenario import Metric, Scenario
from tests.doubles import Recording, ScriptedPolicy, counting_scenario

DOWN = Answer("down")


class TicEnvironment:
    """Lives for `length` tics, each worth a reward of 1; its health is the tics that are left. Ends with `death`, or
    `timeout`. Says how many tics passed unless it is `vague`."""

    def __init__(self, length: int, *, ends: str = "death", vague: bool = False) -> None:
        self.restarts = 0
        self.sent: list[tuple[str | None, int]] = []
        self._length, self._ends, self._vague = length, ends, vague
        self._tic = length

    @property
    def finished(self) -> bool:
        return self._tic >= self._length

    def reset(self, seed: int, index: int) -> Snapshot:
        self._tic = 0
        self.sent = []
        return Snapshot(0, health=self._length)

    def step(self, action: str | None, tics: int) -> Transition:
        assert not self.finished, "step after the end"
        assert action in (None, "stay", "down")
        assert tics > 0
        self.sent.append((action, tics))
        passed = min(tics, self._length - self._tic)
        self._tic += passed
        over, left = self.finished, self._length - self._tic
        return Transition(
            reward=float(passed),
            snapshot=None if over else Snapshot(self._tic, health=left),
            terminated=over and self._ends == "death",
            truncated=over and self._ends == "timeout",
            end_reason=(self._ends if over else None),  # type: ignore[arg-type]
            health_after=left,
            events=("death",) if over and self._ends == "death" else ("hit",) if action is None else ("pickup",),
            tics=None if self._vague else passed,
        )

    def close(self) -> None: ...


TICS = counting_scenario(name="tics", metric=SURVIVAL, describe=lambda snapshot, previous: f"{snapshot.health} left")


def play(
    policy: Policy,
    latency_ms: float | None,
    *,
    length: int = 1_000,
    decisions: int = 4,
    meanwhile: Meanwhile | None = "hold",
    scenario: Scenario = TICS,
    world: TicEnvironment | None = None,
) -> tuple[Episode, list[Decision], TicEnvironment]:
    recording, world = Recording(), world or TicEnvironment(length)
    realtime = None if meanwhile is None else RealTime(meanwhile, latency_ms)
    rules = EpisodeRules(scenario, tics=4, step_cap=decisions, run_seed=0, realtime=realtime)
    episode = run_episode(EpisodeKey("tics", "rule", "p", 1, 0), rules, world, policy, recording)
    return episode, recording.decisions, world


def waits(decisions: Sequence[Decision]) -> list[int | None]:
    return [decision.waited_tics for decision in decisions]


@pytest.mark.parametrize(
    ("latency_ms", "expected"),
    [
        (0.0, [0] * 10),
        (1_000.0, [35] * 10),
        (100.0, [3, 4] * 5),  # 3.5 tics each
        (300.0, [10, 11] * 5),  # 10.5 tics each
        (10.0, [0, 0, 1, 0, 0, 1, 0, 0, 1, 0]),  # 0.35 each: whole tics are full after 3, 6 and 9 decisions
    ],
)
def test_parts_of_a_tic_carry_over_to_the_next_decision(latency_ms: float, expected: list[int]) -> None:
    _, decisions, _ = play(ScriptedPolicy([DOWN]), latency_ms, decisions=10)
    assert waits(decisions) == expected


def test_no_part_is_ever_lost() -> None:
    """1,000 thoughts of 1.3 ms are 1.3 s, which are 45.5 tics."""
    episode, decisions, _ = play(ScriptedPolicy([DOWN]), 1.3, decisions=1_000, length=10_000)
    assert (episode.steps, sum(d.waited_tics or 0 for d in decisions), episode.waited_tics) == (1_000, 45, 45)


def test_an_episode_begins_without_parts_of_the_one_before() -> None:
    policy = ScriptedPolicy([DOWN])
    assert waits(play(policy, 100.0, decisions=1)[1]) == [3]
    assert waits(play(policy, 100.0, decisions=1)[1]) == [3]


def test_hold_keeps_the_last_action_pressed_and_nothing_before_the_first() -> None:
    _, _, world = play(ScriptedPolicy([DOWN, Answer("stay")]), 100.0)
    assert world.sent == [
        *((None, 3), ("down", 4), ("down", 4), ("stay", 4)),
        *(("stay", 3), ("down", 4), ("down", 4), ("stay", 4)),
    ]


def test_idle_presses_nothing() -> None:
    _, _, world = play(ScriptedPolicy([DOWN, Answer("stay")]), 100.0, meanwhile="idle", decisions=3)
    assert world.sent == [(None, 3), ("down", 4), (None, 4), ("stay", 4), (None, 3), ("down", 4)]


def test_what_is_held_is_what_was_sent_not_what_was_said() -> None:
    _, decisions, world = play(ScriptedPolicy([Answer("up")]), 1_000.0, decisions=2)
    assert world.sent == [(None, 35), ("stay", 4), ("stay", 35), ("stay", 4)]
    assert {d.acted_by for d in decisions} == {"fallback"}


def test_a_row_shows_what_the_policy_saw_and_counts_all_that_came_of_it() -> None:
    """35 tics of waiting and 4 of the action: the reward is 39, the events of both are told in their order."""
    episode, decisions, _ = play(ScriptedPolicy([DOWN]), 1_000.0, decisions=3)
    assert [d.snapshot.game_tic for d in decisions] == [0, 39, 78]
    assert [d.state for d in decisions] == ["1000 left", "961 left", "922 left"]
    assert [d.transition.reward for d in decisions] == [39.0] * 3
    assert [d.transition.health_after for d in decisions] == [961, 922, 883]
    assert decisions[0].transition.events == ("hit", "pickup")
    assert decisions[1].transition.events == ("pickup",)
    assert (episode.total_reward, episode.final_state) == (117.0, "883 left")


@pytest.mark.parametrize("vague", [False, True])
def test_an_answer_that_comes_too_late_is_kept_and_nothing_was_sent(vague: bool) -> None:
    """The world ends at tic 50: 39 tics are the first decision, 11 of the next 35 the second one's waiting."""
    world = TicEnvironment(50, vague=vague)
    episode, decisions, _ = play(ScriptedPolicy([Answer("down", {"down": 1.0})]), 1_000.0, world=world)
    first, last = decisions
    assert (first.effective_action, first.acted_by, first.terminated) == ("down", "policy", False)
    assert (last.effective_action, last.acted_by, last.terminated) == (None, None, True)
    assert (last.answer.own, last.answer.asked, last.teacher_action, last.schema_error) == ("down", True, "down", None)
    assert (last.state, last.snapshot.game_tic, last.transition.snapshot) == ("11 left", 39, None)
    assert (last.transition.reward, last.transition.events) == (11.0, ("death",))
    assert world.sent == [(None, 35), ("down", 4), ("down", 35)]
    assert waits(decisions) == [35, 35 if vague else 11]
    assert (episode.steps, episode.end_reason, episode.total_reward) == (2, "death", 50.0)


def test_survival_counts_waiting_and_only_decisions_that_were_played() -> None:
    """One decision of 4 tics, 35 + 11 of waiting: 50 tics. Alive to the cap: 4 decisions of 39 tics."""
    assert play(ScriptedPolicy([DOWN]), 1_000.0, length=50)[0].metric == pytest.approx(50 / 35)
    assert play(ScriptedPolicy([DOWN]), 1_000.0)[0].metric == pytest.approx(4 * 39 / 35)
    assert play(ScriptedPolicy([DOWN]), None, meanwhile=None)[0].metric == 4 * 4 / 35


def test_every_survival_metric_counts_waiting() -> None:
    of_time = [s.metric for s in SCENARIOS.values() if s.metric.name == "survival_s"]
    assert of_time
    assert [metric.per_waited_tic for metric in of_time] == [1 / 35] * len(of_time)
    assert {s.metric.per_waited_tic for s in SCENARIOS.values() if s.metric.name == "kills"} == {0.0}


def test_the_step_cap_counts_decisions_also_a_late_one() -> None:
    assert play(ScriptedPolicy([DOWN]), 1_000.0, decisions=7)[0].steps == 7
    late, _, _ = play(ScriptedPolicy([DOWN]), 1_000.0, length=50, decisions=2)
    assert (late.steps, late.end_reason, late.truncated) == (2, "death", False)


def test_a_time_limit_reached_while_waiting_truncates() -> None:
    world = TicEnvironment(50, ends="timeout")
    episode, decisions, _ = play(ScriptedPolicy([DOWN]), 1_000.0, world=world)
    assert (episode.truncated, episode.terminated, episode.end_reason, episode.final_state) == (
        *(True, False),
        *("timeout", None),
    )
    assert decisions[-1].truncated


def test_the_metric_reads_the_last_snapshot_also_one_that_the_waiting_showed() -> None:
    """The world ends at tic 38, in the first action: the policy saw 38 left, the waiting showed 3."""
    scenario = replace(TICS, metric=Metric("left", "tics", lambda last, decisions, tics: float(last.health or 0)))
    assert play(ScriptedPolicy([DOWN]), 1_000.0, length=38, scenario=scenario)[0].metric == 3.0


def test_an_answer_out_of_schema_that_comes_too_late_stays_out_of_schema() -> None:
    episode, decisions, _ = play(ScriptedPolicy([Answer("up")]), 1_000.0, length=20)
    (only,) = decisions
    assert (only.schema_error, only.effective_action, only.acted_by) == ("not_an_option", None, None)
    assert dict(episode.out_of_schema_by_cause) == {"not_an_option": 1}


def test_a_set_latency_of_0_is_normal_mode() -> None:
    script = [DOWN, Answer("stay"), Answer("up"), RuntimeError("x")]
    normal, still, there = play(ScriptedPolicy(script), None, meanwhile=None, length=31, decisions=9)
    at_once, decisions, here = play(ScriptedPolicy(script), 0.0, length=31, decisions=9)
    assert at_once.trajectory_hash == normal.trajectory_hash
    assert (at_once.metric, at_once.total_reward, at_once.end_reason) == (normal.metric, 31.0, "death")
    assert here.sent == there.sent
    assert (waits(decisions), waits(still)) == ([0] * 8, [None] * 8)
    assert (at_once.waited_tics, normal.waited_tics) == (0, None)


def test_a_set_latency_repeats_itself() -> None:
    first, second = (play(ScriptedPolicy([Answer("down", latency_ms=5.0)]), 70.0, length=99)[0] for _ in range(2))
    assert first.trajectory_hash == second.trajectory_hash
    assert first.trajectory_hash != play(ScriptedPolicy([DOWN]), 90.0, length=99)[0].trajectory_hash


def test_measured_latency_is_what_the_answer_says() -> None:
    _, decisions, _ = play(ScriptedPolicy([Answer("down", latency_ms=200.0), Answer("down", latency_ms=0.0)]), None)
    assert waits(decisions) == [7, 0, 7, 0]


class SlowPolicy(ScriptedPolicy):
    """Takes a tenth of a second, and says nothing of it."""

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        time.sleep(0.1)
        return super().act(snapshot, text, options, instructions)


@pytest.mark.parametrize("answer", [DOWN, Answer("down", latency_ms=float("nan")), RuntimeError("after a while")])
def test_where_the_answer_says_nothing_our_clock_does(answer: object) -> None:
    """At least 3.5 tics a decision; a busy machine may take longer, not shorter."""
    _, decisions, _ = play(SlowPolicy([answer]), None, decisions=2)
    assert 7 <= sum(d.waited_tics or 0 for d in decisions) < 350


def test_the_rule_and_the_random_policy_think_in_no_time_unless_it_is_set() -> None:
    for name in ("oracle", "random"):
        assert waits(play(make_policy(name, TICS), None)[1]) == [0] * 4
        assert waits(play(make_policy(name, TICS), 1_000.0)[1]) == [35] * 4


def test_a_turn_of_the_teacher_in_a_mixture_takes_no_time_unless_it_is_set() -> None:
    assert waits(play(make_policy("mixture:1:random", TICS), None)[1]) == [0] * 4
    _, decisions, _ = play(make_policy("mixture:1:random", TICS), 1_000.0, length=50)
    assert waits(decisions) == [35, 11]
    assert (decisions[-1].effective_action, decisions[-1].acted_by, decisions[-1].answer.asked) == (None, None, False)


def test_finished_right_after_reset_waits_for_nothing() -> None:
    episode, decisions, _ = play(OraclePolicy(PolicyContext(TICS)), 1_000.0, length=0)
    assert (episode.steps, episode.waited_tics, decisions) == (0, 0, [])


def test_a_world_that_cannot_wait_fails_the_episode_as_any_other_fault_of_it() -> None:
    class Impatient(TicEnvironment):
        def step(self, action: str | None, tics: int) -> Transition:
            if action is None:
                raise ValueError("no such button")
            return super().step(action, tics)

    with pytest.raises(EpisodeFailed, match="environment: ValueError: no such button"):
        play(ScriptedPolicy([DOWN]), 1_000.0, world=Impatient(99))
