from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grading.feedback import FeedbackRow
from grading.heuristic import Baseline, goal_between, heuristic_grade, process_of, reversals
from grading.transcript import TranscriptStep
from rollouts.calls.replies import Cause

BASELINE = Baseline(random=1.0, oracle=11.0)


def steps(actions: str, n_visible: int | None = 0) -> list[TranscriptStep]:
    names = {"l": "turn left", "r": "turn right", "a": "attack"}
    return [TranscriptStep(n, "s", names[letter], n_visible=n_visible) for n, letter in enumerate(actions)]


def failed(count: int) -> list[TranscriptStep]:
    return [TranscriptStep(n, "s", "attack", schema_error="not_an_option", n_visible=1) for n in range(count)]


@pytest.mark.parametrize(
    ("metric", "goal"), [(1.0, -1.0), (6.0, 0.0), (11.0, 1.0), (20.0, 1.0), (0.0, -1.0), (8.5, 0.5)]
)
def test_goal_lies_between_random_and_oracle(metric: float, goal: float) -> None:
    assert goal_between(metric, BASELINE) == pytest.approx(goal)


def test_a_metric_that_is_better_when_smaller() -> None:
    assert goal_between(2.0, Baseline(random=10.0, oracle=2.0)) == 1.0


@pytest.mark.parametrize("baseline", [None, Baseline(3.0, 3.0), Baseline(float("nan"), 1.0)])
def test_without_baselines_the_episode_is_ungraded(baseline: Baseline | None) -> None:
    grade = heuristic_grade(5.0, steps("lll"), baseline)
    assert (grade.source, grade.status, grade.cause) == ("heuristic", "ungraded", Cause.NO_BASELINE)
    assert grade.goal_achievement is None


@pytest.mark.parametrize(
    ("actions", "count"), [("lrl", 1), ("lrlr", 2), ("rlr", 1), ("llrr", 0), ("lal", 0), ("aaa", 0), ("lr", 0), ("", 0)]
)
def test_reversals(actions: str, count: int) -> None:
    assert reversals(steps(actions)) == count


@pytest.mark.parametrize("n_visible", [1, None])
def test_turning_back_for_something_in_view_is_no_reversal(n_visible: int | None) -> None:
    assert reversals(steps("lrl", n_visible)) == 0


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (steps("llll"), 1.0),
        (failed(1) + steps("lllllll"), 0.5),
        (failed(1) + steps("lll"), 0.0),
        (failed(3) + steps("l"), -1.0),
        (steps("lrlaaaaa"), 0.5),
        ([], 0.0),
    ],
)
def test_process(given: list[TranscriptStep], value: float) -> None:
    assert process_of(given) == pytest.approx(value)


def test_turns_played_for_the_agent_do_not_count() -> None:
    others = [TranscriptStep(n, "s", "attack", asked=False) for n in range(90)]
    assert process_of(failed(1) + steps("lll") + others) == 0.0


def test_a_whole_grade() -> None:
    said = FeedbackRow("e", "explicit", "negative", 1.0, "slow", datetime(2026, 1, 1, tzinfo=UTC))
    grade = heuristic_grade(8.5, steps("llll"), BASELINE, [said])
    assert (grade.source, grade.status, grade.label) == ("heuristic", "graded", "success")
    assert (grade.goal_achievement, grade.process_quality, grade.user_satisfaction) == (0.5, 1.0, -1.0)
    assert grade.calls == ()
    assert heuristic_grade(8.5, steps("llll"), BASELINE).user_satisfaction == 0.0
    assert heuristic_grade(6.0, [], BASELINE).label == "partial"
    assert heuristic_grade(1.0, [], BASELINE).label == "failure"
