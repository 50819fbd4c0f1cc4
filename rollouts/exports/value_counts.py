"""How often each value occurs, and the statistics that follow exactly: of pixels and of vectors. Merged by adding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)
LEVELS = 256
Numbers = NDArray[np.float64]


@dataclass
class PixelCounts:
    """(3, 256) how often each channel has each level, over `n` pictures."""

    levels: NDArray[np.int64] = field(default_factory=lambda: np.zeros((3, LEVELS), np.int64))
    n: int = 0

    def add(self, picture: NDArray[np.uint8]) -> None:
        """(H, W, 3) RGB."""
        self.levels += np.reshape(Image.fromarray(picture).histogram(), (3, LEVELS))
        self.n += 1

    def merge(self, other: PixelCounts) -> None:
        self.levels += other.levels
        self.n += other.n

    def statistics(self) -> dict[str, Any]:
        """Levels as parts of 1; each statistic of shape (3, 1, 1), as LeRobot has it."""
        values = np.arange(LEVELS) / (LEVELS - 1)
        found = [_statistics(values, counts) for counts in self.levels]
        per_channel = {name: [[[one[name]]] for one in found] for name in found[0]}
        return {**per_channel, "count": [self.n]}


@dataclass
class VectorCounts:
    """How often each entry of a vector has each value. Memory grows with the different values alone."""

    entries: list[Counter[float]] = field(default_factory=list)

    def add(self, vector: Sequence[float]) -> None:
        self.entries = self.entries or [Counter() for _ in vector]
        for counts, value in zip(self.entries, vector, strict=True):
            counts[value] += 1

    def merge(self, other: VectorCounts) -> None:
        self.entries = self.entries or [Counter() for _ in other.entries]
        for counts, more in zip(self.entries, other.entries, strict=True):
            counts.update(more)

    def statistics(self) -> dict[str, Any]:
        """Each statistic of the vector's length."""
        found = []
        for counts in self.entries:
            values = np.array(sorted(counts))
            found.append(_statistics(values, np.array([counts[value] for value in values])))
        return {**{name: [one[name] for one in found] for name in found[0]}, "count": [self.entries[0].total()]}


def _statistics(values: Numbers, counts: NDArray[np.int64]) -> dict[str, float]:
    """Of values in rising order, each as often as its count. The standard deviation is the population's; a quantile
    is the smallest value that at least that share does not exceed."""
    there = counts > 0
    values, counts = values[there], counts[there]
    n = counts.sum()
    mean = float((values * counts).sum() / n)
    std = float(np.sqrt((counts * (values - mean) ** 2).sum() / n))
    below = np.cumsum(counts) / n
    quantiles = {f"q{int(100 * q):02d}": float(values[np.searchsorted(below, q)]) for q in QUANTILES}
    return {"min": float(values[0]), "max": float(values[-1]), "mean": mean, "std": std, **quantiles}
