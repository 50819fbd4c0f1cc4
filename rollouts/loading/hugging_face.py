"""Rows as `datasets` has them. A picture is stored as it is and opened as RGB by `datasets` itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import datasets
import pyarrow as pa

from rollouts.errors import UsageError
from rollouts.loading.rows import Piece, Rows


def streamed(rows: Rows) -> datasets.IterableDataset:
    """A shard of it is a row group. Errors: `UsageError` where there are no rows."""
    if not rows.pieces:
        raise UsageError("there is no row to stream: nothing is committed yet, or no row passes the filters")
    given = {"rows": rows, "pieces": list(rows.pieces)}
    return datasets.IterableDataset.from_generator(_generate, features=_features(rows), gen_kwargs=given)


def in_memory(rows: Rows) -> datasets.Dataset:
    """All rows, pictures as stored."""
    table = pa.concat_tables([rows.schema.empty_table(), *map(rows.read, rows.pieces)])
    return datasets.Dataset(datasets.table.InMemoryTable(table))


def _generate(rows: Rows, pieces: Sequence[Piece]) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        for batch in rows.read(piece).to_batches():
            yield from batch.to_pylist()


def _features(rows: Rows) -> datasets.Features:
    return datasets.Features.from_arrow_schema(rows.schema)
