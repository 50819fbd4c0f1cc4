"""What a judge card says of judges whose ways are known: by hand, and of scripted models that grade a real run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grading.grade import Grade, Weights
from grading.judge_card import judge_card
from grading.judge_reading import read_judge_card
from grading.judge_records import Judge, JudgeCard, Outcome
from grading.judge_words import card_lines
from rollouts.calls.chat_records import ChatRequest
from tests.judged_runs import GRADER, Desk, Model, make_order, played_run


def graded(goal: float, label: str = "partial") -> Grade:
    """R is 0.45 of the goal."""
    return Grade("llm", "graded", goal, 0.0, 0.0, label)  # type: ignore[arg-type]


UNGRADED = Grade("llm", "ungraded")


def judge(name: str, grades: Mapping[tuple[str, int], Grade], presentation: str = "forward", kin: str = "") -> Judge:
    return Judge(name, "llm", "m", presentation, kin or name, grades)


def outcomes(goals: Mapping[str, float | None]) -> dict[str, Outcome]:
    return {key: Outcome("counting", 10 * (goal or 0.0), goal) for key, goal in goals.items()}


ONE = {"a": -1.0, "b": 0.0, "c": 1.0}


def test_a_judge_that_knows_the_outcome_and_one_that_says_the_same_of_all() -> None:
    """The median outcome is 0, at the distances 1, 0 and 1 from the three."""
    knows = judge("knows", {(key, 0): graded(goal) for key, goal in ONE.items()})
    always = judge("always", {(key, 0): graded(0.0) for key in ONE})
    first, second = judge_card([knows, always], outcomes(ONE)).judges
    for numbers, rank, error, better in ((first, 1.0, 0.0, 2 / 3), (second, None, 2 / 3, 0.0)):
        goal = next(found for found in numbers.against if found.axis == "goal_achievement")
        assert (goal.n, goal.rank_correlation) == (3, rank if rank is None else pytest.approx(rank))
        assert goal.error is not None
        assert goal.constant_error is not None
        assert goal.better_by is not None
        assert (goal.error.value, goal.constant_error.value) == (error, pytest.approx(2 / 3))
        assert goal.better_by.value == pytest.approx(better)


def test_labels_beside_the_most_frequent_outcome() -> None:
    """Outcomes failure, partial, success and success; the judge says success of all but the first."""
    said = {"a": "failure", "b": "success", "c": "success", "d": "success"}
    numbers = judge("j", {(key, 0): graded(0.0, label) for key, label in said.items()})
    (labels,) = judge_card([numbers], outcomes({**ONE, "d": 0.8})).judges[0].labels
    assert (labels.right.value, labels.constant_right.value) == (0.75, 0.5)


def test_without_baselines_there_is_a_rank_and_no_distance() -> None:
    found = judge_card([judge("j", {(key, 0): graded(0.1) for key in ONE})], outcomes(dict.fromkeys(ONE)))
    assert all((of.error, of.constant_error) == (None, None) for of in found.judges[0].against)
    assert any("no baselines" in cell for cell in _cells(found))


def _cells(card: JudgeCard) -> list[str]:
    from grading.judge_words import against_tables

    return [str(cell) for table in against_tables(card) for column in table.columns for cell in column.cells]


def test_a_judge_against_itself() -> None:
    """a: goals 1 and 0, so ΔR 0.45 and other labels; b: twice the same; c: one has no score, so nothing to compare."""
    grades = {
        **{("a", 0): graded(1.0, "success"), ("a", 1): graded(0.0)},
        **{("b", 0): graded(0.5), ("b", 1): graded(0.5), ("c", 0): graded(0.2), ("c", 1): UNGRADED},
    }
    found = judge_card([judge("j", grades)], outcomes(ONE)).judges[0].consistency
    assert found is not None
    assert (found.shift.value, found.shift.n) == (pytest.approx(0.225), 2)
    assert (found.labels_differ.value, found.differ.value) == (0.5, 0.5)
    assert (found.alpha_r.n, found.alpha_label.n) == (2, 2)


def test_judges_with_each_other() -> None:
    """The second says the contrary, the third what the first does."""
    first, same = (judge(name, {(key, 0): graded(goal) for key, goal in ONE.items()}) for name in ("first", "same"))
    other = judge("other", {(key, 0): graded(-goal) for key, goal in ONE.items()})
    agreements = {found.graders: found for found in judge_card([first, other, same], outcomes(ONE)).agreements}
    alpha = {graders: found.alphas["R"].value for graders, found in agreements.items()}
    assert alpha["first", "same"] == 1.0
    against = alpha["first", "other"]
    assert against is not None
    assert against < 0
    differ = agreements["first", "other"].differ
    assert differ is not None
    assert (differ.value, differ.n) == (pytest.approx(2 / 3), 3)
    assert agreements["first", "other", "same"].differ is None


def test_one_episode_tells_nothing_of_a_sway() -> None:
    pair = [judge("f", {("a", 0): graded(1.0)}, kin="k"), judge("r", {("a", 0): graded(-1.0)}, "reversed", "k")]
    (sway,) = judge_card(pair, outcomes({"a": 0.0})).sways
    assert (sway.differ.n, sway.differ.interval, sway.swayed) == (1, None, None)


def test_who_contradicts_itself_as_often_is_not_taken_to_be_swayed() -> None:
    """Of twelve episodes the repeats differ in half, and so do those in the other order: R as often up as down."""
    keys = [f"e{n:02}" for n in range(12)]
    up = [0.5 if n % 4 == 0 else -0.5 if n % 4 == 2 else 0.0 for n in range(12)]
    itself = {(key, repeat): graded(shift * repeat) for key, shift in zip(keys, up, strict=True) for repeat in (0, 1)}
    other = {(key, 0): graded(-shift) for key, shift in zip(keys, up, strict=True)}
    pair = [judge("f", itself, kin="k"), judge("r", other, "reversed", "k")]
    (sway,) = judge_card(pair, outcomes(dict.fromkeys(keys, 0.0))).sways
    assert (sway.differ.value, sway.noise, sway.swayed) == (0.5, 0.5, False)


def verdict(goal: float = 0.2, label: str = "partial") -> str:
    axes = {"goal_achievement": goal, "process_quality": 0.1, "user_satisfaction": 0.0}
    return json.dumps({**axes, "label": label, "reason": "as asked"})


def by_order(request: ChatRequest) -> str:
    """Whatever is named first is good."""
    text = request.messages[0].text
    first = text.index("goal_achievement: were") < text.index("user_satisfaction: how")
    return verdict(0.8, "success") if first else verdict(-0.8, "failure")


def by_length(request: ChatRequest) -> str:
    return verdict(min(1.0, len(request.messages[-1].text) / 8_000))


def fair(request: ChatRequest) -> str:
    """By how many decisions the transcript shows."""
    return verdict(min(1.0, request.messages[-1].text.count("AGENT:") / 20))


def card_of(root: Path, say: Callable[[ChatRequest], str]) -> JudgeCard:
    """Of a model that grades a run of eight seeds in every presentation, as usual twice."""
    desk = Desk.at(played_run(root, seeds=tuple(range(1, 9))))
    for presentation in ("forward", "reversed", "padded"):
        grader = replace(GRADER, presentation=presentation)  # type: ignore[arg-type]
        desk.grade(make_order(root, grader=grader, repeats=2 if presentation == "forward" else 1), Model(say))
    desk.leave()
    return read_judge_card(desk.run, Weights())


@pytest.mark.parametrize(
    ("say", "swayed"),
    [
        (by_order, {"order": True, "length": False}),
        (by_length, {"order": False, "length": True}),
        (fair, {"order": False, "length": False}),
    ],
)
def test_judges_that_go_by_order_or_length_are_caught(tmp_path: Path, say: Any, swayed: dict[str, bool]) -> None:
    """Case L15, over the very prompts of a run."""
    card = card_of(tmp_path, say)
    assert {sway.by: sway.swayed for sway in card.sways} == swayed
    assert all(sway.differ.n == 8 for sway in card.sways)
    told = list(card_lines(card))
    assert sum("SWAYED" in line for line in told) == sum(swayed.values())
    plain = card.as_dict()
    assert {sway["by"]: sway["swayed"] for sway in plain["sways"]} == swayed
    json.dumps(plain, allow_nan=False)


def test_a_card_says_what_was_not_asked(tmp_path: Path) -> None:
    desk = Desk.at(played_run(tmp_path, seeds=(1, 2, 3)))
    desk.grade(make_order(tmp_path, grader=GRADER), Model(fair))
    desk.leave()
    told = "\n".join(card_lines(read_judge_card(desk.run, Weights())))
    for missing in ("--repeat 2", "--presentation reversed", "--presentation padded"):
        assert missing in told


def test_a_run_that_nobody_graded(tmp_path: Path) -> None:
    run = played_run(tmp_path, seeds=(1,))
    assert list(card_lines(read_judge_card(run, Weights()))) == ["judge card: nobody graded this run"]
