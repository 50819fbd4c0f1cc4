"""Reads rows in the order of a pass, some at a time; memory holds one window of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from rollouts.loading.order import Indices, PassOrder, Window
from rollouts.loading.rows import Rows

FRAME = "frame"
Pictures = list[memoryview | None]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows: a `pyarrow.Table` of all but their frames, the frames as stored (they are most of the bytes, and are
    never copied; None where they were not asked for), and where each row is from."""

    table: Any
    pictures: Pictures | None
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
        whole = _read_window(rows, window)
        at = 0
        while at < len(window):
            parts.append(_cut(whole, slice(at, at + missing)))
            at, missing = at + len(parts[-1].window), missing - len(parts[-1].window)
            if not missing:
                yield _join(parts)
                parts, missing = [], size
        del whole  # before the next one is read
    if parts:
        yield _join(parts)


def _read_window(rows: Rows, window: Window) -> Chunk:
    """The window's rows, in its order."""
    by_piece = np.lexsort((window.rows, window.pieces))
    pieces, starts = np.unique(window.pieces[by_piece], return_index=True)
    tables = []
    for piece, taken in zip(pieces, np.split(window.rows[by_piece], starts[1:]), strict=True):
        table = rows.read(rows.pieces[int(piece)])
        tables.append(table if len(taken) == table.num_rows else table.take(taken))
    whole = pa.concat_tables(tables)
    places = np.empty(len(window), np.int64)
    places[by_piece] = np.arange(len(window))
    return _arranged(whole, places, window, rows)


def _arranged(whole: Any, places: Indices, window: Window, rows: Rows) -> Chunk:
    """Row n is that at `places[n]` of a `pyarrow.Table`."""
    if FRAME not in whole.column_names:
        return Chunk(whole.combine_chunks().take(places), None, window, rows)
    pictures = _views(whole[FRAME])
    others = whole.drop_columns([FRAME]).combine_chunks()
    return Chunk(others.take(places), [pictures[place] for place in places], window, rows)


def _views(frames: Any) -> Pictures:
    """The stored pictures of a `frame` column, where they lie."""
    views: Pictures = []
    for chunk in pc.struct_field(frames, "bytes").chunks:
        _, offsets, data = chunk.buffers()
        ends = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1].tolist()
        all_bytes = memoryview(data if data is not None else b"")
        there = chunk.is_valid().to_pylist()
        views += [all_bytes[ends[n] : ends[n + 1]] if there[n] else None for n in range(len(chunk))]
    return views


def _cut(chunk: Chunk, cut: slice) -> Chunk:
    window = chunk.window[cut]
    pictures = None if chunk.pictures is None else chunk.pictures[cut]
    return Chunk(chunk.table.slice(cut.start, len(window)), pictures, window, chunk.rows)


def _join(parts: Sequence[Chunk]) -> Chunk:
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables([part.table for part in parts])
    pieces = np.concatenate([part.window.pieces for part in parts])
    rows = np.concatenate([part.window.rows for part in parts])
    pictures = [picture for part in parts for picture in part.pictures or ()]
    named = None if parts[0].pictures is None else pictures
    return Chunk(table, named, Window(pieces, rows), parts[0].rows)
