"""Chunks of rows as what a torch loader gives: a dict a row, or a dict a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import torch
from pyarrow import compute as pc

from rollouts.loading.pictures import decode_planes, planes_shape
from rollouts.loading.stream import FRAME, Chunk
from rollouts.shards.reading import to_rows

Item = dict[str, Any]
MakeEmpty = Callable[[tuple[int, ...]], torch.Tensor]
"""Shape → a uint8 tensor with anything in it."""


def _empty(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.uint8)


def batch_item(chunk: Chunk, empty: MakeEmpty = _empty) -> Item:
    """Column → tensor or list. `empty` makes the frames' tensor.

    Errors: `DamagedFrame`; `UsageError` where a frame is missing or sizes differ.
    """
    names = chunk.rows.selection.columns
    return {name: _frames(chunk, empty) if name == FRAME else _values(chunk.table[name]) for name in names}


def row_items(chunk: Chunk) -> Iterator[Item]:
    """Column → value, row by row. Errors: `DamagedFrame`; `UsageError` where a frame is missing."""
    for n, row in enumerate(_rows(chunk)):
        if chunk.pictures is not None:
            row[FRAME] = torch.from_numpy(decode_planes(chunk.pictures[n : n + 1], partial(_at, chunk, n))[0])
        yield {name: row[name] for name in chunk.rows.selection.columns}


def _at(chunk: Chunk, n: int, _: int) -> str:
    return chunk.locate(n)


def _rows(chunk: Chunk) -> list[Item]:
    """Of all columns but the frame."""
    table = chunk.table
    if not table.num_columns:
        return [{} for _ in range(len(chunk.window))]
    for place, column in enumerate(table.columns):
        table = table.set_column(place, table.column_names[place], _without_null(column))
    return [row for batch in table.combine_chunks().to_batches() for row in to_rows(batch)]


def _frames(chunk: Chunk, empty: MakeEmpty) -> torch.Tensor:
    pictures = chunk.pictures or []
    frames = empty(planes_shape(pictures, chunk.locate))
    decode_planes(pictures, chunk.locate, frames.numpy())
    return frames


def _values(column: Any) -> torch.Tensor | list[Any]:
    column = _without_null(column)
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        values: list[Any] = column.to_pylist()
        return values
    return torch.from_numpy(column.to_numpy().copy())


def _without_null(column: Any) -> Any:
    return pc.fill_null(column, float("nan")) if pa.types.is_floating(column.type) else column
