"""How far a judge is to be believed: does it repeat itself, agree with others, know who played well, and keep to that
when only the order or the length of what it is shown changes? Pure.

Graders are told apart by source, and nothing here pools two of them: what is compared are their grades of one episode.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from grading.grade import Grade, Weights, r_human
from grading.heuristic import label_of
from grading.judge_records import (
    SWAYS,
    Against,
    Agreeing,
    Consistency,
    Grades,
    Judge,
    JudgeCard,
    JudgeNumbers,
    Labels,
    Outcome,
    Sway,
    Swayed,
)
from grading.tally import differs, r_shift, repeat_pairs
from rollouts.statistics.alpha import alpha_interval, alpha_nominal
from rollouts.statistics.estimates import Estimate, mean, ratio, share
from rollouts.statistics.paired import Column, difference, rank_correlation

AXES = ("goal_achievement", "process_quality", "user_satisfaction")


def judge_card(judges: Sequence[Judge], outcomes: Mapping[str, Outcome], weights: Weights | None = None) -> JudgeCard:
    """`outcomes` by episode id, of every completed episode; R under `weights`."""
    return JudgeCard(
        judges=tuple(_numbers(judge, outcomes, weights) for judge in judges),
        agreements=tuple(_agreements([judge for judge in judges if judge.upright], weights)),
        sways=tuple(_sways(judges, weights)),
    )


def _numbers(judge: Judge, outcomes: Mapping[str, Outcome], weights: Weights | None) -> JudgeNumbers:
    firsts = {key: grade for key, grade in judge.firsts.items() if key in outcomes}
    scenarios = list(dict.fromkeys(outcomes[key].scenario for key in firsts))
    of = {name: [(g, outcomes[k]) for k, g in firsts.items() if outcomes[k].scenario == name] for name in scenarios}
    return JudgeNumbers(
        grader_id=judge.grader_id,
        source=judge.source,
        model=judge.model,
        presentation=judge.presentation,
        graded=len(firsts),
        episodes=len(outcomes),
        consistency=_consistency(judge.grades, weights),
        against=tuple(found for name, rows in of.items() for found in _against(name, rows, weights)),
        labels=tuple(found for name, rows in of.items() if (found := _labels(name, rows))),
    )


def _consistency(grades: Grades, weights: Weights | None) -> Consistency | None:
    of_episodes = repeat_pairs(grades)
    if not of_episodes:
        return None

    def over_pairs(value: Callable[[Grade, Grade], float]) -> Estimate:
        return ratio([sum(value(a, b) for a, b in pairs) for pairs in of_episodes], [len(p) for p in of_episodes])

    repeats = [[pairs[0][0], *(other for _, other in pairs)] for pairs in of_episodes]
    return Consistency(
        shift=over_pairs(lambda a, b: abs(r_shift(a, b, weights))),
        labels_differ=over_pairs(lambda a, b: float(a.label != b.label)),
        differ=over_pairs(lambda a, b: float(differs(a, b, weights))),
        alpha_r=alpha_interval([[r_human(grade, weights) for grade in row] for row in repeats]),
        alpha_label=alpha_nominal([[grade.label for grade in row] for row in repeats]),
    )


def _values(weights: Weights | None) -> dict[str, Callable[[Grade], float | None]]:
    """What a grade says, by name: R and the axes."""

    def axis(name: str) -> Callable[[Grade], float | None]:
        return lambda grade: getattr(grade, name)

    return {"R": lambda grade: r_human(grade, weights), **{name: axis(name) for name in AXES}}


def _against(scenario: str, rows: Sequence[tuple[Grade, Outcome]], weights: Weights | None) -> Iterator[Against]:
    for name, of in _values(weights).items():
        known = [(value, outcome) for grade, outcome in rows if (value := of(grade)) is not None]
        if not known:
            continue
        placed = [(value, outcome.goal) for value, outcome in known if outcome.goal is not None]
        yield Against(
            scenario,
            name,
            len(known),
            rank_correlation([value for value, _ in known], [outcome.metric for _, outcome in known]),
            *(_errors(placed) if placed else (None, None, None)),
        )


def _errors(placed: Sequence[tuple[float, float]]) -> tuple[Estimate, Estimate, Estimate]:
    middle = statistics.median(goal for _, goal in placed)
    own, constant = [abs(value - goal) for value, goal in placed], [abs(middle - goal) for _, goal in placed]
    return mean(own), mean(constant), mean([c - o for o, c in zip(own, constant, strict=True)])


def _labels(scenario: str, rows: Sequence[tuple[Grade, Outcome]]) -> Labels | None:
    named = [(g.label, label_of(o.goal)) for g, o in rows if g.label is not None and o.goal is not None]
    if not named:
        return None
    usual = statistics.mode(truth for _, truth in named)
    right = (sum(label == truth for label, truth in named), sum(truth == usual for _, truth in named))
    return Labels(scenario, *(share(n, len(named), "episode") for n in right))


def _agreements(judges: Sequence[Judge], weights: Weights | None) -> Iterator[Agreeing]:
    """Two by two, and where three or more are models, these together."""
    for pair in combinations(judges, 2):
        yield _agreeing(pair, weights)
    models = [judge for judge in judges if judge.source == "llm"]
    if len(models) > 2:
        yield _agreeing(models, weights)


def _agreeing(judges: Sequence[Judge], weights: Weights | None) -> Agreeing:
    firsts = [judge.firsts for judge in judges]
    rows = [[first.get(key) for first in firsts] for key in dict.fromkeys(key for first in firsts for key in first)]
    alphas = {
        name: alpha_interval([[None if grade is None else of(grade) for grade in row] for row in rows])
        for name, of in _values(weights).items()
    }
    alphas["label"] = alpha_nominal([[None if grade is None else grade.label for grade in row] for row in rows])
    ids = tuple(judge.grader_id for judge in judges)
    return Agreeing(ids, alphas, _differ(_both(*judges), weights) if len(judges) == 2 else None)


def _both(first: Judge, second: Judge) -> list[tuple[Grade, Grade]]:
    """What two judges said of the episodes that both graded."""
    theirs = second.firsts
    return [(grade, theirs[key]) for key, grade in first.firsts.items() if key in theirs]


def _differ(pairs: Sequence[tuple[Grade, Grade]], weights: Weights | None) -> Estimate:
    return share(sum(differs(a, b, weights) for a, b in pairs), len(pairs), "episode")


def _sways(judges: Sequence[Judge], weights: Weights | None) -> Iterator[Swayed]:
    for second in judges:
        by = SWAYS.get(second.presentation or "")
        for first in judges:
            if by and first.kin == second.kin and first.presentation == "forward":
                yield _swayed(by, first, second, weights)


def _swayed(by: Sway, first: Judge, second: Judge, weights: Weights | None) -> Swayed:
    pairs = _both(first, second)
    columns = [Column.values([r_human(pair[side], weights) for pair in pairs]) for side in (0, 1)]
    moved = difference(*columns)
    itself = _consistency(first.grades, weights)
    return Swayed(
        by=by,
        first=first.grader_id,
        second=second.grader_id,
        differ=_differ(pairs, weights),
        shift=moved.mean,
        p_value=moved.p_value,
        noise=None if itself is None else itself.differ.value,
    )
