"""Reads rows in the order of a pass, some at a time; memory holds one window of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rollouts.loading.order import Indices, PassOrder, Window
from rollouts.loading.rows import Rows


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows, a `pyarrow.Table`, and where each is from."""

    table: Any
    window: Window
    rows: Rows

    def locate(self, n: int) -> str:
        """The shard of the n-th row, and its number there (from 0)."""
        return self.rows.pieces[int(self.window.pieces[n])].locate(int(self.window.rows[n]))


def read_chunks(rows: Rows, order: PassOrder, wanted: range, size: int) -> Iterator[Chunk]:
    """The rows of a stretch of a pass, `size` at a time, the last time perhaps fewer. Errors: `StorageError`."""
    parts: list[Chunk] = []
    missing = size
    for window in order.windows(wanted):
        table, places = _read_window(rows, window)
        at = 0
        while at < len(window):
            cut = slice(at, at + missing)
            parts.append(Chunk(table.take(places[cut]), window[cut], rows))
            at, missing = at + len(parts[-1].window), missing - len(parts[-1].window)
            if not missing:
                yield _join(parts)
                parts, missing = [], size
        del table  # before the next one is read
    if parts:
        yield _join(parts)


def _read_window(rows: Rows, window: Window) -> tuple[Any, Indices]:
    """A `pyarrow.Table` of the window's rows, piece by piece, and (n,) the place in it of each of the window's."""
    by_piece = np.lexsort((window.rows, window.pieces))
    places = np.empty(len(window), np.int64)
    places[by_piece] = np.arange(len(window))
    pieces, starts = np.unique(window.pieces[by_piece], return_index=True)
    tables = []
    for piece, taken in zip(pieces, np.split(window.rows[by_piece], starts[1:]), strict=True):
        table = rows.read(rows.pieces[int(piece)])
        tables.append(table if len(taken) == table.num_rows else table.take(taken))
    return pa.concat_tables(tables).combine_chunks(), places


def _join(parts: list[Chunk]) -> Chunk:
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables([part.table for part in parts])
    pieces = np.concatenate([part.window.pieces for part in parts])
    rows = np.concatenate([part.window.rows for part in parts])
    return Chunk(table, Window(pieces, rows), parts[0].rows)
