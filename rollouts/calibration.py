"""Expected calibration error over equal-mass or equal-width bins, streamed, independent of the order of rows. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ECE_BINS = 15
_COMPACT_ROWS = 1 << 16

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """`n` rows with the sums of their confidence and of their (shared) correctness."""

    n: int
    confidence: float
    correct: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Expected calibration error with the bins that were really used; no rows: `ece` None and no bins."""

    bins: tuple[CalibrationBin, ...]

    @property
    def n(self) -> int:
        return sum(b.n for b in self.bins)

    @property
    def ece(self) -> float | None:
        """Mean of |accuracy - confidence| over bins, weighted by their sizes (Naeini et al. 2015)."""
        return math.fsum(abs(b.correct - b.confidence) for b in self.bins) / self.n if self.bins else None


class CalibrationTally:
    """Collects (confidence, correct) rows. Memory grows with the number of distinct confidences, not of rows."""

    def __init__(self) -> None:
        self._batches: list[tuple[Floats, Ints, Ints]] = []
        self._loose = 0
        self._next_compaction = _COMPACT_ROWS

    def add(self, confidence: Floats, correct: Bools) -> None:
        """Both are (n,); confidences are in [0, 1]."""
        self._batches.append(_count_ties(confidence, np.ones(len(confidence), np.int64), correct.astype(np.int64)))
        self._loose += len(self._batches[-1][0])
        if self._loose >= self._next_compaction:
            self._compact()

    def equal_mass(self, bins: int = ECE_BINS) -> Calibration:
        """Rows sorted by confidence and cut into at most `bins` runs; sizes differ by one at most, the larger first.

        Rows of equal confidence share their mean correctness before the cut, so that their order cannot matter:
        the sums along the sorted rows are then linear within a tie, and a cut is an interpolation.
        """
        values, rows, correct = self._compact()
        total = int(rows.sum())
        used = min(bins, total)
        sizes = np.full(used, total // max(used, 1), np.int64) + (np.arange(used) < total % max(used, 1))
        cuts = np.concatenate([[0], np.cumsum(sizes)])
        ends = np.concatenate([[0], np.cumsum(rows)])
        confidence = np.diff(np.interp(cuts, ends, np.concatenate([[0.0], np.cumsum(values * rows)])))
        right = np.diff(np.interp(cuts, ends, np.concatenate([[0.0], np.cumsum(correct, dtype=np.float64)])))
        return _calibration(sizes, confidence, right)

    def equal_width(self, bins: int) -> Calibration:
        """`bins` intervals of equal width over [0, 1]; 1.0 belongs to the last one, empty ones are left out."""
        values, rows, correct = self._compact()
        place = np.minimum((values * bins).astype(np.int64), bins - 1)
        sums = np.zeros((3, bins))
        for row, weights in zip(sums, (rows, values * rows, correct), strict=True):
            np.add.at(row, place, weights)
        sizes, confidence, right = sums[:, sums[0] > 0]
        return _calibration(sizes.astype(np.int64), confidence, right)

    def _compact(self) -> tuple[Floats, Ints, Ints]:
        empty = (np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
        merged = _count_ties(*(np.concatenate(parts) for parts in zip(empty, *self._batches, strict=True)))
        self._batches, self._loose = [merged], len(merged[0])
        self._next_compaction = max(_COMPACT_ROWS, 2 * self._loose)
        return merged


def _count_ties(values: Floats, rows: Ints, correct: Ints) -> tuple[Floats, Ints, Ints]:
    """Distinct values in rising order, with the sums of `rows` and `correct` over each."""
    distinct, place = np.unique(values, return_inverse=True)
    counts = np.zeros((2, len(distinct)), np.int64)
    np.add.at(counts[0], place, rows)
    np.add.at(counts[1], place, correct)
    return distinct, counts[0], counts[1]


def _calibration(sizes: Ints, confidence: Floats, correct: Floats) -> Calibration:
    rows = zip(sizes, confidence, correct, strict=True)
    return Calibration(tuple(CalibrationBin(int(n), float(p), float(c)) for n, p, c in rows))
