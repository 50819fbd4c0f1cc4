"""Grades counted: means with their coverage, source by source, and how far two gradings of the same tasks differ.

Values of different sources are never pooled: there is one tally a source, and its name goes with every number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from grading.grade import Grade, Source, Weights, label_agrees, r_human
from rollouts.calls.replies import Cause


@dataclass(frozen=True, slots=True)
class GradeTally:
    """The grades of one source. A mean is None where nothing was graded; axes are None where absent.

    `labels_compared` is how many labels could be held against the goal axis, `labels_against` how many contradict it.
    `endpoint_error` is the most frequent of the endpoint's errors, None where there was none.
    `n_cut` gradings did not see the whole task; `characters_cut` is what all of them together did not see.
    """

    source: Source
    n: int
    n_graded: int
    mean_r: float | None
    mean_goal: float | None
    mean_process: float | None
    mean_satisfaction: float | None
    ungraded_by_cause: Mapping[str, int]
    endpoint_error: str | None
    labels_compared: int
    labels_against: int
    n_cut: int
    characters_cut: int

    @property
    def coverage(self) -> str:
        """What stands next to every mean."""
        return f"graded {self.n_graded} of {self.n}"


def tally(grades: Iterable[Grade], weights: Weights | None = None) -> tuple[GradeTally, ...]:
    """One tally for each source that occurs, by name."""
    by_source: dict[Source, list[Grade]] = {}
    for grade in grades:
        by_source.setdefault(grade.source, []).append(grade)
    return tuple(_tally(source, by_source[source], weights) for source in sorted(by_source))


def _tally(source: Source, grades: Sequence[Grade], weights: Weights | None) -> GradeTally:
    graded = [grade for grade in grades if grade.graded]
    agreements = [verdict for verdict in map(label_agrees, graded) if verdict is not None]
    return GradeTally(
        source=source,
        n=len(grades),
        n_graded=len(graded),
        mean_r=_mean(r_human(grade, weights) for grade in graded),
        mean_goal=_mean(grade.goal_achievement for grade in graded),
        mean_process=_mean(grade.process_quality for grade in graded),
        mean_satisfaction=_mean(grade.user_satisfaction for grade in graded),
        ungraded_by_cause=Counter(str(grade.cause) for grade in grades if not grade.graded),
        endpoint_error=_most_frequent(g.detail for g in grades if g.cause is Cause.ENDPOINT_ERROR),
        labels_compared=len(agreements),
        labels_against=agreements.count(False),
        n_cut=sum(grade.cuts.anything for grade in grades),
        characters_cut=sum(g.cuts.characters_shortened + g.cuts.characters_left_out for g in grades),
    )


@dataclass(frozen=True, slots=True)
class RepeatSpread:
    """How far a grader's gradings of the same question differ: the noise below which a difference says nothing.

    `episodes` have two or more graded repeats; the first of them (repeat 0, unless that has no score) is compared with
    each of the others, `pairs` in all. `mean_abs_r_shift` is the mean of |R of the other - R of the first| over the
    pairs, `label_disagreement` the share of pairs with two labels. Both are None, undefined, without a pair.
    """

    episodes: int
    pairs: int
    mean_abs_r_shift: float | None
    label_disagreement: float | None


def repeat_spread(grades: Mapping[tuple[str, int], Grade], weights: Weights | None = None) -> RepeatSpread:
    """The spread of one grader's `grades`, by (episode id, repeat)."""
    of_episodes = repeat_pairs(grades)
    pairs = [pair for of_episode in of_episodes for pair in of_episode]
    return RepeatSpread(
        episodes=len(of_episodes),
        pairs=len(pairs),
        mean_abs_r_shift=_mean(abs(r_shift(a, b, weights)) for a, b in pairs),
        label_disagreement=_mean(float(a.label != b.label) for a, b in pairs),
    )


def repeat_pairs(grades: Mapping[tuple[str, int], Grade]) -> list[list[tuple[Grade, Grade]]]:
    """Of each episode with two or more graded repeats, the first of them with each of the others."""
    graded = sorted(key for key, grade in grades.items() if grade.graded)
    of_episodes = [[grades[key] for key in keys] for _, keys in groupby(graded, itemgetter(0))]
    return [[(first, other) for other in others] for first, *others in of_episodes if others]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _most_frequent(details: Iterable[str | None]) -> str | None:
    """Of equally frequent ones the first by letters, so that the order of rows does not matter."""
    found = Counter(detail for detail in details if detail)
    return min(found, key=lambda detail: (-found[detail], detail), default=None)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two gradings of the same tasks side by side: how often they differ, over the pairs in which both were graded.

    `rate` is the share of `n` with another label or an R further apart than the tolerance; `mean_r_shift` is the mean
    of second minus first.
    """

    n: int
    n_differ: int
    rate: float | None
    mean_r_shift: float | None


def disagreement(
    first: Sequence[Grade], second: Sequence[Grade], weights: Weights | None = None, tolerance: float = 0.1
) -> Disagreement:
    """How far presentation (order, length), prompt or model sway a judge: task by task, in the same order."""
    both = [(a, b) for a, b in zip(first, second, strict=True) if a.graded and b.graded]
    differ = sum(differs(a, b, weights, tolerance) for a, b in both)
    shifts = [r_shift(a, b, weights) for a, b in both]
    return Disagreement(len(both), differ, differ / len(both) if both else None, _mean(shifts))


def differs(first: Grade, second: Grade, weights: Weights | None = None, tolerance: float = 0.1) -> bool:
    """Whether two grades of one task have other labels, or an R further apart than the tolerance."""
    return first.label != second.label or abs(r_shift(first, second, weights)) > tolerance


def r_shift(first: Grade, second: Grade, weights: Weights | None = None) -> float:
    """R of the second less R of the first; both are graded."""
    return (r_human(second, weights) or 0.0) - (r_human(first, weights) or 0.0)
