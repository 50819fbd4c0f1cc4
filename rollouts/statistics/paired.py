"""Two policies on the same episodes: how far they differ, how sure that is, and what could have been seen at all. Pure.

A measure is a ratio of sums over episodes: an episode's metric over 1, its agreeing decisions over those asked. What is
drawn, and swapped, are pairs of episodes, never decisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rollouts.calibration import Floats
from rollouts.statistics.estimates import LEVEL, NO_WIDTH, Estimate, ratio, resampled, share
from rollouts.statistics.library import scipy_stats

PAIR = "pair"
POWER = 0.8
PERMUTATIONS = 9_999


@dataclass(frozen=True, slots=True)
class Difference:
    """The second less the first, over the pairs in which both have something.

    `mean` has the bootstrap interval over pairs. `p_value` is of a two-sided permutation test that swaps the two within
    pairs. `detectable` is the smallest true difference that a paired t test at 5 % sees with a power of 80 %, if pairs
    spread as these do. `differing`: the share of pairs that differ at all. A number that is None is undefined: with
    fewer than two pairs, and `detectable` where all pairs differ by the same.
    """

    first: Estimate
    second: Estimate
    mean: Estimate
    p_value: float | None
    detectable: float | None
    differing: Estimate

    @property
    def significant(self) -> bool | None:
        """At 5 %; None where there is no test."""
        return None if self.p_value is None else self.p_value <= 1 - LEVEL

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        estimates = {name: getattr(self, name).as_dict() for name in ("first", "second", "mean", "differing")}
        return {**estimates, "p_value": self.p_value, "minimum_detectable_difference": self.detectable, "power": POWER}


@dataclass(frozen=True, slots=True)
class Column:
    """A measure of n episodes in some order: `above` and `below`, (n,) each, 0 below where an episode has nothing."""

    above: Floats
    below: Floats

    @classmethod
    def ratios(cls, above: Sequence[float], below: Sequence[float]) -> Column:
        return cls(np.asarray(above, np.float64), np.asarray(below, np.float64))

    @classmethod
    def values(cls, values: Sequence[float | None]) -> Column:
        """A value an episode, or None."""
        known = [value is not None and math.isfinite(value) for value in values]
        filled = [value if ok and value is not None else 0.0 for value, ok in zip(values, known, strict=True)]
        return cls.ratios(filled, [float(ok) for ok in known])

    def estimate(self, unit: str = "episode") -> Estimate:
        return ratio(self.above.tolist(), self.below.tolist(), unit)


def difference(first: Column, second: Column) -> Difference:
    """Compare two columns, row by row. Errors: `ValueError` where they are not equally long."""
    both = (first.below > 0) & (second.below > 0)
    a, b = (Column(column.above[both], column.below[both]) for column in (first, second))
    apart = b.above / b.below - a.above / a.below
    of_first, of_second = a.estimate(PAIR), b.estimate(PAIR)
    columns = (a.above, a.below, b.above, b.below)
    n = len(apart)
    return Difference(
        first=of_first,
        second=of_second,
        mean=Estimate(_less(of_second.value, of_first.value), resampled(columns, PAIR, _apart), n, PAIR),
        p_value=_swapped(columns),
        detectable=minimum_detectable(apart.tolist()),
        differing=share(int(np.count_nonzero(apart)), n, PAIR),
    )


def minimum_detectable(differences: Sequence[float]) -> float | None:
    """(t of 1 - 0.05 / 2 + t of 0.8) · sd / √n, with n - 1 degrees of freedom; None where nothing spreads.

    Bloom, "Minimum Detectable Effects" (1995); sd is the sample's (n - 1).
    """
    n = len(differences)
    spread = float(np.std(differences, ddof=1)) if n > 1 else 0.0
    if spread <= NO_WIDTH * max(1.0, float(np.max(np.abs(differences), initial=0.0))):
        return None
    t = scipy_stats().t
    return float(t.ppf(1 - (1 - LEVEL) / 2, n - 1) + t.ppf(POWER, n - 1)) * spread / math.sqrt(n)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's; None below two values, and where either side is constant."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(scipy_stats().spearmanr(first, second).statistic)


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _apart(*columns: Any, axis: int) -> Any:
    """What the second two columns come to less what the first two do."""
    a_above, a_below, b_above, b_below = (column.sum(axis=axis) for column in columns)
    return b_above / b_below - a_above / a_below


def _swapped(columns: Sequence[Floats]) -> float | None:
    """p of the test whose null hypothesis is that either of a pair could have been the other's.

    Exact where all swaps are at most PERMUTATIONS (13 pairs), else that many of them, always the same ones.
    """
    n = len(columns[0])
    if n < 2:
        return None
    a_above, a_below, b_above, b_below = columns

    def statistic(kept: Any, axis: int) -> Any:
        stays = kept > 0
        pairs = ((a_above, b_above), (a_below, b_below))
        firsts, seconds = zip(*((np.where(stays, a, b), np.where(stays, b, a)) for a, b in pairs), strict=True)
        return _apart(*firsts, *seconds, axis=axis)

    found = scipy_stats().permutation_test(
        (np.ones(n),),
        statistic,
        permutation_type="samples",
        vectorized=True,
        axis=-1,
        n_resamples=PERMUTATIONS,
        batch=500,
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)
