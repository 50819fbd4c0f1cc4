"""The loop on a small game that is no Doom: schema rule, ends, failures, hashes."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

from rollouts.episode import EpisodeFailed, EpisodeRules, run_episode
from rollouts.errors import BudgetSpent, EngineLost, RunStopped, StorageError, TryVoid
from rollouts.policies.base import Policy, PolicyContext
from rollouts.policies.oracle import OraclePolicy
from rollouts.policies.text_only import TextOnlyPolicy
from rollouts.policies.uniform import RandomPolicy
from rollouts.records import Answer, Episode, EpisodeKey, Snapshot, Transition
from rollouts.scenarios.scenario import Scenario
from tests.doubles import (
    COUNTING,
    BrokenResetEnvironment,
    CountingEnvironment,
    EchoBackend,
    Recording,
    ScriptedPolicy,
    counting_scenario,
)

DOWN = Answer("down")
RULES = EpisodeRules(COUNTING, tics=4, step_cap=100, run_seed=0)


def play(
    policy: Policy,
    scenario: Scenario = COUNTING,
    *,
    seed: int = 1,
    index: int = 0,
    rules: EpisodeRules = RULES,
    rubric: str = "rule",
    environment: CountingEnvironment | None = None,
) -> tuple[Episode, Recording]:
    recording = Recording()
    key = EpisodeKey(scenario.name, rubric, "p", seed, index)
    rules = replace(rules, scenario=scenario)
    episode = run_episode(key, rules, environment or CountingEnvironment(), policy, recording)
    return episode, recording


def test_oracle_plays_to_the_goal() -> None:
    episode, recording = play(OraclePolicy(PolicyContext(COUNTING)), index=2)
    assert (episode.steps, episode.metric, episode.end_reason) == (7, 1.0, "goal")
    assert (episode.terminated, episode.truncated, episode.total_reward) == (True, False, 7.0)
    assert [d.snapshot.health for d in recording.decisions] == [7, 6, 5, 4, 3, 2, 1]
    assert [d.transition.health_after for d in recording.decisions] == [6, 5, 4, 3, 2, 1, 0]
    assert [d.snapshot.game_tic for d in recording.decisions] == [0, 4, 8, 12, 16, 20, 24]
    assert recording.decisions[0].answer.probabilities == {"stay": 0.0, "down": 1.0}
    assert (episode.latency_ms_p50, episode.latency_ms_p95, episode.n_out_of_schema) == (0.0, 0.0, 0)
    assert episode.final_state is None


def test_the_text_carries_the_previous_effective_action() -> None:
    _, recording = play(ScriptedPolicy([Answer("up"), DOWN]))
    assert [d.state for d in recording.decisions[:3]] == [
        "5 left.",
        "5 left. You chose stay.",
        "4 left. You chose down.",
    ]


@pytest.mark.parametrize("choice", ["Down", " down", "down ", "DOWN", "up", "", None])
def test_only_an_exact_option_is_in_schema(choice: str | None) -> None:
    episode, recording = play(ScriptedPolicy([Answer(choice), DOWN]))
    first = recording.decisions[0]
    assert (first.out_of_schema, first.schema_error, first.effective_action) == (True, "not_an_option", "stay")
    assert (first.answer.choice, first.acted_by) == (choice, "fallback")
    assert dict(episode.out_of_schema_by_cause) == {"not_an_option": 5}


def test_a_choice_that_is_no_text_is_kept_as_text() -> None:
    _, recording = play(ScriptedPolicy([Answer(1), DOWN]))  # type: ignore[arg-type]
    assert recording.decisions[0].answer.choice == "1"
    assert recording.decisions[0].schema_error == "not_an_option"


def test_an_exception_is_data_and_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "marker-1234567")
    episode, recording = play(ScriptedPolicy([RuntimeError("no\nluck with marker-1234567"), DOWN]))
    first = recording.decisions[0]
    assert (first.schema_error, first.error) == ("policy_error", "RuntimeError: no luck with [redacted]")
    assert (first.answer.choice, first.effective_action, first.answer.latency_ms) == (None, "stay", None)
    assert dict(episode.out_of_schema_by_cause) == {"policy_error": 5}


def test_a_policy_that_would_end_the_process_ends_nothing() -> None:
    _, recording = play(ScriptedPolicy([SystemExit(3), DOWN]))
    assert (recording.decisions[0].schema_error, recording.decisions[0].error) == ("policy_error", "SystemExit: 3")


@pytest.mark.parametrize(
    "broken",
    [
        "down",
        None,
        Answer("down", {"down": "high"}),  # type: ignore[dict-item]
        Answer("down", confidence="high"),  # type: ignore[arg-type]
        Answer("down", latency_ms="12 ms"),  # type: ignore[arg-type]
        Answer("down", messages=[{"role": "user"}]),  # type: ignore[arg-type]
        Answer("down", raw_reply={"a": 1}),  # type: ignore[arg-type]
        Answer("down", tokens_in=12.5),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_breaks_the_contract_is_a_policy_error(broken: object) -> None:
    _, recording = play(ScriptedPolicy([broken, DOWN]))
    assert recording.decisions[0].schema_error == "policy_error"


@pytest.mark.parametrize(
    ("claim", "error"),
    [
        (Answer("down", asked=False), "ValueError: asked is False where the policy acted"),
        (Answer("down", acted_by="teacher"), "ValueError: asked is True where the teacher acted"),
        (Answer("down", acted_by="fallback"), "ValueError: acted_by is 'fallback', not 'policy' or 'teacher'"),
        (
            Answer("stay", asked=False, acted_by="teacher"),
            "ValueError: the teacher is said to have chosen 'stay', but chose 'down'",
        ),
    ],
)
def test_who_acted_cannot_be_made_up(claim: Answer, error: str) -> None:
    _, recording = play(ScriptedPolicy([claim, DOWN]))
    first = recording.decisions[0]
    assert (first.schema_error, first.error, first.acted_by) == ("policy_error", error, "fallback")
    assert first.answer.asked


def test_a_policy_may_let_the_teacher_act() -> None:
    episode, recording = play(ScriptedPolicy([Answer("down", asked=False, acted_by="teacher"), DOWN]))
    assert [d.acted_by for d in recording.decisions] == ["teacher", "policy"] * 2 + ["teacher"]
    assert [d.answer.own for d in recording.decisions[:2]] == [None, "down"]
    assert episode.n_out_of_schema == 0


def test_ten_errors_in_a_row_fail_the_episode() -> None:
    nine_then_fine = ScriptedPolicy([*[RuntimeError("x")] * 9, DOWN])
    assert play(nine_then_fine)[0].n_out_of_schema == 45
    with pytest.raises(EpisodeFailed, match=r"policy: 10 errors in a row, the last: RuntimeError: x"):
        play(ScriptedPolicy([RuntimeError("x")]))


def test_a_void_try_is_not_the_policys_answer() -> None:
    with pytest.raises(EngineLost):
        play(ScriptedPolicy([EngineLost("gone")]))


@pytest.mark.parametrize(
    "error", [BudgetSpent("spent"), RunStopped("no key"), StorageError("disk full"), TryVoid("gone")]
)
def test_what_is_not_the_policys_answer_is_no_row(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        play(ScriptedPolicy([DOWN, error]))


def test_a_policys_own_cause_counts_where_there_is_no_choice() -> None:
    script = [Answer(None, cause="refused", detail="No."), Answer("down", cause="refused"), Answer("jump"), DOWN]
    episode, recording = play(ScriptedPolicy(script))
    told = [(d.schema_error, d.error) for d in recording.decisions[:4]]
    assert told == [("refused", "No."), (None, None), ("not_an_option", None), (None, None)]
    assert episode.out_of_schema_by_cause["refused"] >= 1


def test_a_policy_that_wants_to_is_told_the_tick() -> None:
    ticks = []

    class Counting(ScriptedPolicy):
        def at(self, tick: int) -> None:
            ticks.append(tick)

    play(Counting([DOWN]))
    assert ticks == [0, 1, 2, 3, 4]


def test_step_cap_truncates_and_keeps_the_final_state() -> None:
    episode, recording = play(ScriptedPolicy([DOWN]), rules=replace(RULES, step_cap=3))
    assert (episode.steps, episode.end_reason, episode.truncated, episode.terminated) == (3, "step_cap", True, False)
    assert (episode.metric, episode.final_state) == (2.0, "2 left. You chose down.")
    assert [d.truncated for d in recording.decisions] == [False, False, True]


def test_the_games_own_end_wins_over_the_cap() -> None:
    episode, _ = play(ScriptedPolicy([DOWN]), rules=replace(RULES, step_cap=5))
    assert (episode.steps, episode.end_reason, episode.truncated) == (5, "goal", False)


def test_finished_right_after_reset_is_an_episode_of_no_decisions() -> None:
    episode, recording = play(ScriptedPolicy([DOWN]), seed=0)
    assert (episode.steps, episode.metric, episode.end_reason, recording.decisions) == (0, 0.0, None, [])
    assert (episode.latency_ms_p50, episode.frames_hash) == (None, None)


def test_failures_name_their_stage() -> None:
    with pytest.raises(EpisodeFailed, match="environment: OSError: no such level"):
        play(ScriptedPolicy([DOWN]), environment=BrokenResetEnvironment())
    wrong_teacher = counting_scenario(teacher=lambda snapshot: "up")
    with pytest.raises(EpisodeFailed, match=r"scenario: teacher: ValueError: that of 'counting' said 'up'"):
        play(ScriptedPolicy([DOWN]), wrong_teacher)


def _raise(*_: object) -> NoReturn:
    raise KeyError("nope")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"describe": _raise}, "scenario: state text: KeyError: 'nope'"),
        ({"teacher": _raise}, "scenario: teacher: KeyError: 'nope'"),
        ({"metric": replace(COUNTING.metric, measure=_raise)}, "scenario: metric 'left': KeyError: 'nope'"),
        (
            {"metric": replace(COUNTING.metric, measure=lambda *_: "many")},
            "scenario: metric 'left': ValueError: .*many",
        ),
    ],
)
def test_which_function_of_the_scenario_failed_is_said(changes: dict[str, object], says: str) -> None:
    with pytest.raises(EpisodeFailed, match=says):
        play(ScriptedPolicy([DOWN]), counting_scenario(**changes))


def test_instructions_follow_the_rubric_and_reach_a_text_only_backend() -> None:
    _, recording = play(TextOnlyPolicy(EchoBackend()), rubric="bare")
    assert recording.decisions[0].answer.raw_reply == "5 left.|Reach 0."
    assert recording.decisions[0].effective_action == "down"


def test_without_a_teacher_there_is_no_teacher_action() -> None:
    _, recording = play(ScriptedPolicy([DOWN]), counting_scenario(teacher=None))
    assert recording.decisions[0].teacher_action is None


def test_latency_percentiles_leave_out_what_was_not_timed() -> None:
    script = [Answer("down", latency_ms=1.0), Answer("down"), Answer("down", latency_ms=3.0)]
    episode, _ = play(ScriptedPolicy(script))
    # timed: 1, 3, 1 (the fifth is the second again, untimed) -> median 1, p95 by linear interpolation 1 + 0.9 * 2
    assert episode.latency_ms_p50 == pytest.approx(1.0)
    assert episode.latency_ms_p95 == pytest.approx(2.8)


def test_random_depends_on_run_seed_and_episode_alone() -> None:
    def actions(run_seed: int, index: int, policy_name: str = "p") -> list[str]:
        recording = Recording()
        key = EpisodeKey("counting", "rule", policy_name, 1, index)
        rules = replace(RULES, run_seed=run_seed)
        run_episode(key, rules, CountingEnvironment(), RandomPolicy(PolicyContext(COUNTING)), recording)
        return [d.effective_action for d in recording.decisions]

    assert actions(0, 30) == actions(0, 30, "another")
    assert len({tuple(actions(seed, 30)) for seed in range(5)}) == 5


def test_trajectory_hash_sees_texts_actions_and_variables() -> None:
    def digest(policy: Policy, scenario: Scenario = COUNTING) -> str:
        return play(policy, scenario)[0].trajectory_hash

    base = digest(ScriptedPolicy([DOWN]))
    assert digest(ScriptedPolicy([DOWN])) == base
    assert digest(ScriptedPolicy([Answer("down", confidence=0.5, raw_reply="x")])) == base
    assert digest(ScriptedPolicy([Answer("stay"), DOWN])) != base
    assert digest(ScriptedPolicy([DOWN]), counting_scenario(describe=lambda s, p: "?")) != base


class LyingEnvironment(CountingEnvironment):
    """Ends without saying why."""

    def step(self, action: str, tics: int) -> Transition:
        return replace(super().step(action, tics), terminated=False, end_reason=None)


def test_an_end_without_a_reason_is_not_called_the_step_cap() -> None:
    episode, _ = play(ScriptedPolicy([DOWN]), environment=LyingEnvironment())
    assert (episode.end_reason, episode.truncated, episode.terminated) == (None, False, False)


def test_the_metric_reads_the_last_real_snapshot() -> None:
    seen: list[tuple[Snapshot, int, int]] = []
    scenario = counting_scenario(
        metric=replace(COUNTING.metric, measure=lambda *args: seen.append(args) or 1.0),  # type: ignore[func-returns-value]
    )
    play(ScriptedPolicy([DOWN]), scenario)
    assert [(s.health, decisions, tics) for s, decisions, tics in seen] == [(1, 5, 4)]


def test_a_metric_that_is_no_number_fails_the_episode() -> None:
    scenario = counting_scenario(metric=replace(COUNTING.metric, measure=lambda *args: float("nan")))
    with pytest.raises(EpisodeFailed, match="scenario: metric 'left': ValueError: it is nan"):
        play(ScriptedPolicy([DOWN]), scenario)
