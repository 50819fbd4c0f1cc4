"""Rows as a `ray.data` dataset, read by Ray's own tasks. On a cluster a local path must mean the same on every node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from rollouts.errors import UsageError
from rollouts.loading.pictures import Locate, decode_planes
from rollouts.loading.rows import Piece, Rows
from rollouts.readers import Filters, Runs, open_rows

try:
    import ray.data
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask
    from ray.data.extensions import ArrowTensorArray
except ModuleNotFoundError as missing:
    raise UsageError(f"ray_dataset needs {missing.name}: pip install 'ray[data]'") from missing

_ROW_BYTES, _FRAME_BYTES, _PIXEL_BYTES = 1_000, 26_000, 3 * 240 * 320
"""What a row takes in memory, about: its words, its frame as stored, its frame decoded. Ray plans with that."""


def ray_dataset(
    runs: Runs, columns: Sequence[str] | None = None, *, decode: bool = False, **filters: Unpack[Filters]
) -> ray.data.Dataset:
    """The rows that `rollouts.readers.read_table` gives; a block is a row group.

    `frame` is the struct (bytes, path) as stored; with `decode` it is a tensor (H, W, 3) uint8, RGB, nine times as
    large: to shuffle, do that first and decode then, by `dataset.map_batches(decode_frames, batch_format="pyarrow")`.
    Errors: `UsageError`, `StorageError`; `DamagedFrame`, inside Ray's own error.
    """
    rows: ray.data.Dataset = ray.data.read_datasource(CommittedRows(open_rows(runs, columns, **filters), decode))
    return rows


class CommittedRows(Datasource):
    """Read tasks of consecutive row groups, about equally many each."""

    def __init__(self, rows: Rows, decode: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rows = rows
        self._decode = decode and "frame" in rows.schema.names

    def get_name(self) -> str:
        return "CommittedRows"

    def estimate_inmemory_data_size(self) -> int:
        return self._bytes(self._rows.pieces)

    def get_read_tasks(self, parallelism: int, *_: Any, **settings: Any) -> list[ReadTask]:
        some = np.array_split(np.arange(len(self._rows.pieces)), min(parallelism, len(self._rows.pieces)) or 1)
        limit = settings.get("per_task_row_limit")
        return [self._task([self._rows.pieces[i] for i in numbers], limit) for numbers in some]

    def _task(self, pieces: Sequence[Piece], limit: int | None) -> ReadTask:
        files = tuple(dict.fromkeys(piece.shard.path for piece in pieces))
        metadata = BlockMetadata(sum(piece.count for piece in pieces), self._bytes(pieces), None, input_files=files)
        read = partial(_blocks, self._rows, pieces, self._decode)
        return ReadTask(read, metadata, schema=None if self._decode else self._rows.schema, per_task_row_limit=limit)

    def _bytes(self, pieces: Sequence[Piece]) -> int:
        frame = _PIXEL_BYTES if self._decode else _FRAME_BYTES if "frame" in self._rows.schema.names else 0
        return (_ROW_BYTES + frame) * sum(piece.count for piece in pieces)


def decode_frames(table: Any) -> Any:
    """A `pyarrow.Table` whose `frame` is decoded to tensors (H, W, 3) uint8. Errors: `DamagedFrame` that names a frame
    by its path (episode and tick); `UsageError` where one is missing, or sizes differ, or there is no such column."""
    if "frame" not in table.column_names:
        raise UsageError(
            f"there are no frames to decode, only {', '.join(table.column_names)}: ask for the column frame"
        )
    paths = table["frame"].combine_chunks().field("path").to_pylist()
    return _decoded(table, lambda n: str(paths[n]))


def _blocks(rows: Rows, pieces: Sequence[Piece], decode: bool) -> Iterator[Any]:
    for piece in pieces:
        table = rows.read(piece)
        yield _decoded(table, piece.locate) if decode else table


def _decoded(table: Any, locate: Locate) -> Any:
    pictures = [frame and frame["bytes"] for frame in table["frame"].to_pylist()]
    pixels = np.ascontiguousarray(decode_planes(pictures, locate).transpose(0, 2, 3, 1))
    place = table.column_names.index("frame")
    column = pa.chunked_array([ArrowTensorArray.from_numpy(pixels)])
    return table.replace_schema_metadata().set_column(place, "frame", column)
