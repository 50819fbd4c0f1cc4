"""Krippendorff's alpha: how far raters of the same things agree beyond what chance would give. Pure, numpy alone.

Krippendorff, "Content Analysis" (2nd ed., 2004), chapter 11. The package of that name takes memory as (things times
values squared), which continuous grades do not fit into; here both levels are sums of squares, and a test holds the
package's results against ours.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from rollouts.calibration import Floats


@dataclass(frozen=True, slots=True)
class Alpha:
    """`value` is 1 for perfect agreement, 0 for what chance gives, below 0 for less; None, undefined, where nothing was
    rated twice or all ratings are equal. `n` of `unit` were rated by two or more of `raters`."""

    value: float | None
    n: int
    unit: str
    raters: int


def alpha_interval(ratings: Sequence[Sequence[float | None]], unit: str = "episode") -> Alpha:
    """Of numbers whose distances mean something: one row a thing, one entry a rater, None where there is no rating."""
    return _alpha([[(float(x),) for x in row if x is not None] for row in ratings], ratings, unit)


def alpha_nominal(ratings: Sequence[Sequence[Hashable | None]], unit: str = "episode") -> Alpha:
    """Of names, which are equal or not. As points at equal distances from each other they are numbers too."""
    names = list(dict.fromkeys(x for row in ratings for x in row if x is not None))
    points = dict(zip(names, np.eye(len(names)).tolist(), strict=True))
    return _alpha([[tuple(points[x]) for x in row if x is not None] for row in ratings], ratings, unit)


def _alpha(
    points: Sequence[Sequence[tuple[float, ...]]], ratings: Sequence[Sequence[object | None]], unit: str
) -> Alpha:
    """1 - observed / expected disagreement, where disagreement is the mean squared distance of two ratings.

    The squared distances of all ordered pairs of m points sum to 2 m times their sum of squares about the mean.
    """
    rated = [np.array(row, np.float64) for row in points if len(row) > 1]
    raters = max((len(row) for row in ratings), default=0)
    everything = np.concatenate(rated) if rated else np.zeros((0, 1))
    n, total = len(everything), _squares(everything)
    if total == 0:
        return Alpha(None, len(rated), unit, raters)
    observed = sum(2 * len(row) * _squares(row) / (len(row) - 1) for row in rated) / n
    expected = 2 * total / (n - 1)
    return Alpha(1 - observed / expected, len(rated), unit, raters)


def _squares(points: Floats) -> float:
    """(m, d) → the sum of squared distances from the mean; 0 for no point."""
    return float(((points - points.mean(axis=0)) ** 2).sum()) if len(points) else 0.0
