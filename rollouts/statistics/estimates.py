"""Numbers with their uncertainty: shares after Wilson, means by bootstrap over whole episodes. Pure.

Decisions of one episode follow from each other, so they are never taken for independent: what is counted over
decisions (agreement, Brier, the share out of schema) is a ratio of sums over episodes, and episodes are what is drawn.
Wilson is for shares of episodes, pairs or whatever else is independent.

An interval is undefined, never of no width: with fewer than two values, and where all are equal, for then a bootstrap
draws the same number again and again and knows nothing of how far others would lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rollouts.calibration import Floats
from rollouts.naming import counted
from rollouts.statistics.library import scipy_stats

LEVEL = 0.95
RESAMPLES = 10_000
_BATCH = 500
NO_WIDTH = 1e-12
UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high` with the confidence `level`, from `n` of `unit` (a singular noun: episode, pair)."""

    low: float
    high: float
    n: int
    unit: str
    level: float = LEVEL


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number from `n` of `unit`, and how sure it is; None where there is nothing, or no interval can be given."""

    value: float | None
    interval: Interval | None
    n: int
    unit: str

    @property
    def undefined(self) -> str | None:
        """Why there is no interval, in words; None where there is one."""
        if self.interval is not None:
            return None
        if self.n < 2:
            return f"{UNDEFINED} for {counted(self.n, self.unit)}"
        return f"{UNDEFINED}: all {counted(self.n, self.unit)} are equal"

    def told(self, digits: int = 2, sign: str = "") -> str:
        """`1.50 [0.90, 2.10]`, or the number and `[undefined]`; `sign` is that of Python's formats."""
        if self.value is None:
            return "-"
        form = f"{sign},.{digits}f"
        if self.interval is None:
            return f"{self.value:{form}} [{UNDEFINED}]"
        return f"{self.value:{form}} [{self.interval.low:{form}}, {self.interval.high:{form}}]"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; `low` and `high` are null where the interval is undefined, and `undefined` says why."""
        found = self.interval
        return {
            "value": self.value,
            "low": None if found is None else found.low,
            "high": None if found is None else found.high,
            "level": LEVEL,
            "n": self.n,
            "unit": self.unit,
            "undefined": self.undefined,
        }


def wilson(successes: int, n: int, unit: str) -> Interval | None:
    """Wilson (1927) score interval of the share `successes` / `n`; None for n below 2.

    Errors: `ValueError` where there are more successes than n.
    """
    if n < 2:
        return None
    found = scipy_stats().binomtest(successes, n).proportion_ci(LEVEL, method="wilson")
    return Interval(float(found.low), float(found.high), n, unit)


def bootstrap_mean(values: Sequence[float], unit: str = "episode") -> Interval | None:
    """Percentile bootstrap (Efron, 1979) of a mean; the same values in the same order give the same interval."""
    return bootstrap_ratio(values, [1.0] * len(values), unit)


def bootstrap_ratio(above: Sequence[float], below: Sequence[float], unit: str = "episode") -> Interval | None:
    """The same of sum(above) / sum(below), drawn pair by pair. A pair with 0 below says nothing and is not in n."""
    columns = counting(above, below)
    return resampled(columns, unit, _of_sums)


def share(successes: int, n: int, unit: str) -> Estimate:
    """A share of independent things, with its Wilson interval."""
    return Estimate(successes / n if n else None, wilson(successes, n, unit), n, unit)


def mean(values: Sequence[float], unit: str = "episode") -> Estimate:
    """A mean with its bootstrap interval. Sums are exact (`math.fsum`)."""
    return ratio(values, [1.0] * len(values), unit)


def ratio(above: Sequence[float], below: Sequence[float], unit: str = "episode") -> Estimate:
    """sum(above) / sum(below) with its bootstrap interval; `n` counts the pairs with something below."""
    a, b = counting(above, below)
    value = math.fsum(a) / math.fsum(b) if len(b) else None
    return Estimate(value, bootstrap_ratio(above, below, unit), len(b), unit)


def counting(above: Sequence[float], below: Sequence[float]) -> tuple[Floats, Floats]:
    """Both as arrays, (n,) each, of the pairs with something below."""
    a, b = np.asarray(above, np.float64), np.asarray(below, np.float64)
    return a[b > 0], b[b > 0]


def _of_sums(above: Any, below: Any, axis: int) -> Any:
    return above.sum(axis=axis) / below.sum(axis=axis)


def resampled(columns: Sequence[Floats], unit: str, statistic: Callable[..., Any]) -> Interval | None:
    """Percentile bootstrap over the rows of `columns`, (n,) each. `statistic` takes them with more rows of draws, and
    the `axis` along which the n lie."""
    n = len(columns[0])
    if n < 2:
        return None
    found = scipy_stats().bootstrap(
        tuple(columns),
        statistic,
        n_resamples=RESAMPLES,
        batch=_BATCH,
        vectorized=True,
        axis=-1,
        paired=True,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    low, high = map(float, found.confidence_interval)
    return None if high - low <= NO_WIDTH * max(1.0, abs(high)) else Interval(low, high, n, unit)
