from __future__ import annotations

from dataclasses import replace

import pytest

from grading.grade import Grade, Weights, label_agrees, parse_weights, r_human
from grading.tally import disagreement, tally
from grading.task_summary import Cuts
from rollouts.calls.replies import Cause
from rollouts.errors import UsageError

LLM = Grade("llm", "graded", 1.0, -0.5, 0.2, "success", "fine")


def test_r_is_computed_from_the_axes_on_read() -> None:
    assert r_human(LLM) == pytest.approx(0.45 - 0.15 + 0.05)
    assert r_human(LLM, Weights(0, 0, 1)) == pytest.approx(0.2)
    assert r_human(replace(LLM, goal_achievement=1.0, process_quality=1.0, user_satisfaction=1.0)) == 1.0


def test_the_r_of_people_alone_is_their_satisfaction() -> None:
    assert r_human(Grade("explicit", "graded", user_satisfaction=-0.5), Weights(1, 0, 0)) == -0.5


def test_ungraded_has_no_r() -> None:
    assert r_human(Grade("llm", "ungraded", cause=Cause.EMPTY)) is None


@pytest.mark.parametrize("text", ["0.5,0.5,0.5", "1.2,-0.2,0", "0.45,0.3", "a,b,c", "nan,0.5,0.5", "inf,0,0", ""])
def test_bad_weights_are_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="weights"):
        parse_weights(text)


def test_good_weights() -> None:
    assert parse_weights("0.45,0.30,0.25") == Weights()
    assert parse_weights("0.1,0.2,0.7").satisfaction == 0.7


@pytest.mark.parametrize(
    ("label", "goal", "agrees"),
    [
        ("success", 0.1, True), ("success", 0.0, False), ("success", -1.0, False), ("failure", -0.1, True),
        ("failure", 0.5, False), ("partial", 0.9, True), ("partial", 1.0, False), ("unknown", 1.0, None),
    ],
)  # fmt: skip
def test_label_against_goal(label: str, goal: float, agrees: bool | None) -> None:
    assert label_agrees(replace(LLM, label=label, goal_achievement=goal)) is agrees


def test_sources_are_never_pooled_and_ungraded_never_averaged() -> None:
    grades = [
        LLM,
        replace(LLM, goal_achievement=-1.0),
        Grade("llm", "ungraded", cause=Cause.EMPTY),
        Grade("heuristic", "graded", 0.0, 0.0, 0.0, "partial"),
        Grade("heuristic", "ungraded", cause=Cause.NO_BASELINE),
        Grade("explicit", "graded", user_satisfaction=1.0),
    ]
    grades += [Grade("llm", "ungraded", cause=Cause.ENDPOINT_ERROR, detail=f"HTTP {n}") for n in (503, 401, 401)]
    explicit, heuristic, llm = tally(grades)
    assert [t.source for t in (explicit, heuristic, llm)] == ["explicit", "heuristic", "llm"]
    assert [t.coverage for t in (explicit, heuristic, llm)] == ["graded 1 of 1", "graded 1 of 2", "graded 2 of 6"]
    assert llm.mean_r == pytest.approx((0.35 - 0.55) / 2)
    assert llm.mean_goal == 0.0
    assert (llm.labels_compared, llm.labels_against) == (2, 1)
    assert dict(llm.ungraded_by_cause) == {"empty": 1, "endpoint_error": 3}
    assert (llm.endpoint_error, heuristic.endpoint_error) == ("HTTP 401", None)
    assert (explicit.mean_r, explicit.mean_goal) == (1.0, None)
    assert dict(heuristic.ungraded_by_cause) == {"no_baseline": 1}


def test_what_was_cut_is_counted() -> None:
    cut = replace(LLM, cuts=Cuts(lines_shortened=1, characters_shortened=7, turns_left_out=2, characters_left_out=500))
    (llm,) = tally([LLM, cut, cut])
    assert (llm.n_cut, llm.characters_cut) == (2, 1_014)


def test_nothing_graded_has_no_mean() -> None:
    (llm,) = tally([Grade("llm", "ungraded", cause=Cause.EMPTY)])
    assert (llm.mean_r, llm.coverage) == (None, "graded 0 of 1")
    assert tally([]) == ()


def test_disagreement_counts_labels_and_shifts_over_the_pairs_both_graded() -> None:
    other = replace(LLM, label="partial")
    shifted = replace(LLM, goal_achievement=0.0)
    missing = Grade("llm", "ungraded", cause=Cause.EMPTY)
    found = disagreement([LLM, LLM, LLM, LLM], [LLM, other, shifted, missing])
    assert (found.n, found.n_differ, found.rate) == (3, 2, pytest.approx(2 / 3))
    assert found.mean_r_shift == pytest.approx(-0.45 / 3)
    assert disagreement([missing], [LLM]).rate is None
