"""Samples into files of bounded size: Parquet row groups, or JSON lines. Memory holds one row group at most."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
from pyarrow import parquet as pq

from rollouts.exports.samples import Row
from rollouts.shards.schemas import leaves

FileKind = Literal["parquet", "jsonl"]
FILE_KINDS: tuple[FileKind, ...] = get_args(FileKind)
GROUP_ROWS = 1_024
GROUP_BYTES = 4 << 20
Sample = Mapping[str, Any]


class TableWriter:
    """Writes `data/train-00000.<kind>` and so on; a file that has reached `shard_bytes` is the last one's."""

    def __init__(
        self, folder: Path, schema: pa.Schema, sample: Callable[[Row], Sample], kind: FileKind, shard_bytes: int
    ) -> None:
        self._folder = folder / "data"
        self._folder.mkdir()
        self._schema = schema
        self._sample = sample
        self._kind = kind
        self._shard_bytes = shard_bytes
        self._files = 0
        self._open: ParquetFile | JsonLinesFile | None = None

    def add(self, row: Row) -> None:
        if self._open is None:
            path = self._folder / f"train-{self._files:05d}.{self._kind}"
            self._open = ParquetFile(path, self._schema) if self._kind == "parquet" else JsonLinesFile(path)
            self._files += 1
        self._open.add(self._sample(row))
        if self._open.bytes >= self._shard_bytes:
            self.close()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class ParquetFile:
    """One Parquet file; pictures as they are, all else zstd."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = pa.OSFile(str(path), "wb")
        codecs = {leaf: "NONE" if leaf.endswith(".bytes") else "ZSTD" for leaf in leaves(schema)}
        self._writer = pq.ParquetWriter(self._sink, schema, compression=codecs, write_page_index=True)
        self._rows: list[Sample] = []
        self._pending_bytes = 0

    @property
    def bytes(self) -> int:
        """Of the groups that are written."""
        return int(self._sink.tell())

    def add(self, sample: Sample) -> None:
        self._rows.append(sample)
        self._pending_bytes += _size(sample)
        if len(self._rows) >= GROUP_ROWS or self._pending_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()
        self._sink.close()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema), row_group_size=len(self._rows))
        self._rows, self._pending_bytes = [], 0


class JsonLinesFile:
    """One file of JSON lines in UTF-8."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.bytes = 0

    def add(self, sample: Sample) -> None:
        self.bytes += self._file.write(f"{json.dumps(sample, ensure_ascii=False)}\n".encode())

    def close(self) -> None:
        self._file.close()


def _size(value: Any) -> int:
    """The bytes and characters of all that a sample holds."""
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 8
