"""Chunks of rows as what a torch loader gives: a dict a row, or a dict a batch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import torch
from pyarrow import compute as pc

from rollouts.loading.pictures import decode_planes
from rollouts.loading.stream import Chunk
from rollouts.shards.reading import to_rows

Item = dict[str, Any]
FRAME = "frame"


def batch_item(chunk: Chunk) -> Item:
    """Column → tensor or list. Errors: `DamagedFrame`; `UsageError` where a frame is missing or sizes differ."""
    names = chunk.table.column_names
    return {name: _frames(chunk) if name == FRAME else _values(chunk.table[name]) for name in names}


def row_items(chunk: Chunk) -> Iterator[Item]:
    """Column → value, row by row. Errors: `DamagedFrame`; `UsageError` where a frame is missing."""
    names = chunk.table.column_names
    if FRAME not in names:
        yield from _rows(chunk.table)
        return
    pictures = _pictures(chunk.table)
    for n, row in enumerate(_rows(chunk.table.drop_columns([FRAME]))):
        row[FRAME] = torch.from_numpy(decode_planes(pictures[n : n + 1], partial(_at, chunk, n))[0])
        yield {name: row[name] for name in names}


def _at(chunk: Chunk, n: int, _: int) -> str:
    return chunk.locate(n)


def _rows(table: Any) -> list[Item]:
    if not table.num_columns:
        return [{} for _ in range(table.num_rows)]
    for place, column in enumerate(table.columns):
        table = table.set_column(place, table.column_names[place], _without_null(column))
    return [row for batch in table.combine_chunks().to_batches() for row in to_rows(batch)]


def _frames(chunk: Chunk) -> torch.Tensor:
    return torch.from_numpy(decode_planes(_pictures(chunk.table), chunk.locate))


def _pictures(table: Any) -> list[bytes | None]:
    found: list[bytes | None] = pc.struct_field(table[FRAME], "bytes").to_pylist()
    return found


def _values(column: Any) -> torch.Tensor | list[Any]:
    column = _without_null(column)
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        values: list[Any] = column.to_pylist()
        return values
    return torch.from_numpy(column.to_numpy().copy())


def _without_null(column: Any) -> Any:
    return pc.fill_null(column, float("nan")) if pa.types.is_floating(column.type) else column
