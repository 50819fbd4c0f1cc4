"""The order of a pass over pieces of rows, and who gets which rows of it. Pure: numbers in, numbers out.

A pass is one order of all rows, the same for everybody who knows the seed and the number of the pass. Pieces (row
groups) are shuffled, then cut into windows of a few pieces, and the rows of a window are shuffled among themselves.
Each rank gets one stretch of the order, and of that each of its workers one stretch: so a pass is split exactly,
whatever the shards' sizes, and a piece is read by more than one worker only where a stretch begins or ends in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Even = Literal["none", "drop", "repeat"]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Window:
    """Rows in the order in which they are given: (n,) the piece of each, and which of the piece's rows it is."""

    pieces: Indices
    rows: Indices

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, cut: slice) -> Window:
        return Window(self.pieces[cut], self.rows[cut])


@dataclass(frozen=True, slots=True)
class Place:
    """Who reads: this worker of the workers of this rank of the world."""

    rank: int = 0
    world: int = 1
    worker: int = 0
    workers: int = 1


def rank_rows(total: int, even: Even, place: Place) -> range:
    """The rank's stretch of a pass over `total` rows; numbers from `total` on mean its beginning again.

    none: each row once, ranks differ by at most one row. drop: every rank floor(total / world) rows, the last
    total mod world of the pass are left out. repeat: every rank ceil(total / world), the missing ones taken from the
    pass's beginning.
    """
    if even == "none":
        return range(place.rank * total // place.world, (place.rank + 1) * total // place.world)
    each = total // place.world if even == "drop" else -(-total // place.world)
    return range(place.rank * each, (place.rank + 1) * each)


def worker_rows(total: int, even: Even, place: Place) -> range:
    """The worker's stretch of its rank's; workers of a rank differ by at most one row. Where ranks have equally many
    rows, so have their n-th workers."""
    rows = rank_rows(total, even, place)
    cuts = [rows.start + worker * len(rows) // place.workers for worker in (place.worker, place.worker + 1)]
    return range(*cuts)


@dataclass(frozen=True)
class PassOrder:
    """The order of one pass over pieces of `counts` rows; as they lie there where `mix` is 0, else windows of `mix`
    pieces are shuffled."""

    counts: Indices
    mix: int
    seed: int
    epoch: int

    def windows(self, wanted: range) -> Iterator[Window]:
        """The rows of a stretch, window by window. A stretch that goes beyond the end goes on at the beginning."""
        total, at = int(self.counts.sum()), wanted.start
        while at < wanted.stop and total:
            begin = at % total
            end = min(total, begin + wanted.stop - at)
            yield from self._between(begin, end)
            at += end - begin

    def _between(self, begin: int, end: int) -> Iterator[Window]:
        pieces = self._random(0).permutation(len(self.counts)) if self.mix else np.arange(len(self.counts))
        ends = np.cumsum(self.counts[pieces])
        step = self.mix or 1
        for first in range(0, len(pieces), step):
            of_window = pieces[first : first + step]
            start, stop = int(ends[first] - self.counts[pieces[first]]), int(ends[first + len(of_window) - 1])
            if start < end and stop > begin:
                cut = slice(max(begin, start) - start, min(end, stop) - start)
                yield self._mixed(of_window, first)[cut]

    def _mixed(self, pieces: Indices, first: int) -> Window:
        sizes = self.counts[pieces]
        of_row = np.repeat(pieces, sizes)
        row = np.concatenate([np.arange(size) for size in sizes])
        if not self.mix:
            return Window(of_row, row)
        drawn = self._random(1 + first).permutation(len(row))
        return Window(of_row[drawn], row[drawn])

    def _random(self, number: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.epoch, number))
