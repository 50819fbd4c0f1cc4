"""Writes shards: one episode's decisions after the other into a spool file, in row groups of bounded size.

A spool is private and local, and its name is no reader's. It becomes a shard when it is closed after its last row,
hashed, and put into the run folder whole (rollouts/run/run_folder.py). What is not closed here is nobody's shard.

    writer = StepWriter(spool, unit.part, run_id, tics, options)
    for key in unit.keys():
        writer.begin(key)
        ...                                   # writer.append(decision, frame) for each decision
        writer.commit_episode()               # or discard_episode(): of a failed episode no row stays
    steps = writer.close()                    # None without a row
    episodes = write_episodes(path, records, steps, provenance)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from rollouts.errors import StorageError
from rollouts.records import Decision, Episode, EpisodeFailure, EpisodeKey, ShardFile, Unit
from rollouts.shards.rows import (
    Encode,
    Provenance,
    Row,
    episode_values,
    key_values,
    make_table,
    step_values,
    text_bytes,
)
from rollouts.shards.schemas import EPISODES, PLAN, STEPS, open_writer
from rollouts.store.storage_faults import cause

GROUP_BYTES = 4 << 20
GROUP_ROWS = 1_024
GROUP_ROWS_WITH_FRAMES = 128


class StepWriter:
    """Streams the `steps` rows of one unit into `spool`. Memory holds one row group at most.

    Errors: `StorageError` where the scratch disk fails; the caller then calls `abort`.
    """

    def __init__(self, spool: Path, part: str, run_id: str, tics: int, options: tuple[str, ...]) -> None:
        self._spool = spool
        self._fresh = spool.with_name(f"{spool.name}.rewritten")
        self._name = shard_name(part)
        self._run_id = run_id
        self._tics = tics
        self._options = options
        self._writer: pq.ParquetWriter | None = None
        self._key: Row | None = None
        self._rows: list[Row] = []
        self._pending_bytes = 0
        self._committed_bytes = 0
        self._flushed = 0
        self._committed = 0

    def begin(self, key: EpisodeKey) -> None:
        """Start an episode; the one before must be committed or discarded."""
        if self._key is not None:
            raise ValueError(f"{self._key[1]} is still open")
        self._key = key_values(self._run_id, key)

    def append(self, decision: Decision, frame: bytes | None = None) -> None:
        """Add the next decision of the open episode, with its encoded picture."""
        if self._key is None:
            raise ValueError("no episode is open")
        self._rows.append(self._key + step_values(decision, frame, self._tics, self._options))
        self._pending_bytes += len(frame or b"") + text_bytes(decision)
        limit = GROUP_ROWS if frame is None else GROUP_ROWS_WITH_FRAMES
        if len(self._rows) >= limit or self._pending_bytes >= GROUP_BYTES:
            self._flush()

    def commit_episode(self) -> None:
        """The open episode is complete: its rows stay."""
        self._key = None
        self._committed = self._flushed + len(self._rows)
        self._committed_bytes = self._pending_bytes

    def discard_episode(self) -> None:
        """The open episode failed: none of its rows stays, on disk neither."""
        self._key = None
        if self._flushed > self._committed:
            self._rewrite_spool()
            self._rows = []
        del self._rows[self._committed - self._flushed :]
        self._pending_bytes = self._committed_bytes

    def close(self) -> ShardFile | None:
        """Finish the spool: footer, size, hash. None, and no spool, where no episode left a row."""
        if self._key is not None:
            raise ValueError(f"{self._key[1]} is still open")
        if self._rows:
            self._flush()
        if self._writer is None:
            return None
        self._close_writer()
        if not self._committed:
            self._spool.unlink()
            return None
        return shard_file(self._spool, self._name, self._committed)

    def abort(self) -> None:
        """Drop everything; nothing of the spool stays."""
        with suppress(StorageError):
            self._close_writer()
        self._spool.unlink(missing_ok=True)
        self._fresh.unlink(missing_ok=True)

    def _flush(self) -> None:
        table = make_table(self._rows, STEPS, counter="tick")
        with _scratch(self._spool):
            self._writer = self._writer or open_writer(str(self._spool), STEPS)
            self._writer.write_table(table, row_group_size=len(self._rows))
        self._flushed += len(self._rows)
        self._rows = []
        self._pending_bytes = self._committed_bytes = 0

    def _close_writer(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with _scratch(self._spool):
                writer.close()

    def _rewrite_spool(self) -> None:
        """Copy the committed rows, group by group, into a fresh spool that takes the old one's place."""
        self._close_writer()
        with _scratch(self._spool):
            writer = open_writer(str(self._fresh), STEPS)
            for group in _first_rows(self._spool, self._committed):
                writer.write_table(group, row_group_size=group.num_rows)
            os.replace(self._fresh, self._spool)
        self._writer = writer
        self._flushed = self._committed


def write_episodes(
    path: Path,
    records: Sequence[Episode | EpisodeFailure],
    steps: ShardFile | None,
    provenance: Provenance,
    encode: Encode | None = None,
) -> ShardFile:
    """Write a unit's `episodes` shard to `path`: a record for each planned episode, in the unit's order.

    `encode` makes the picture of a final frame; without it none is kept. Errors: `ValueError` where records and plan
    differ, `StorageError` where the disk fails.
    """
    unit = provenance.unit
    if tuple(record.key for record in records) != unit.keys():
        raise ValueError(f"unit {unit.number}: its records are not those of the planned episodes, in order")
    paired = zip(records, unit.episodes, strict=True)
    rows = [episode_values(record, planned, steps, provenance, encode) for record, planned in paired]
    return write_table(path, make_table(rows, EPISODES, counter="steps"), shard_name(unit.part))


def write_plan(path: Path, units: Sequence[Unit]) -> ShardFile:
    """Write `units` as a plan file to `path`."""
    rows = [
        (unit.number, *key_values("", key)[1:], planned.tries)
        for unit in units
        for key, planned in zip(unit.keys(), unit.episodes, strict=True)
    ]
    return write_table(path, make_table(rows, PLAN, counter="unit"), path.name)


def shard_name(part: str) -> str:
    return f"{part}.parquet"


def shard_file(path: Path, name: str, rows: int) -> ShardFile:
    """Measure and hash a finished file."""
    with _scratch(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return ShardFile(name, rows, file.tell(), digest)


def write_table(path: Path, table: Any, name: str) -> ShardFile:
    """Write a `pyarrow.Table` to `path`, which will be called `name`. Errors: `StorageError`."""
    with _scratch(path):
        writer = open_writer(str(path), table.schema)
        writer.write_table(table)
        writer.close()
    return shard_file(path, name, table.num_rows)


def _first_rows(path: Path, rows: int) -> Iterator[pa.Table]:
    """The first `rows` rows of a finished Parquet file, row group by row group."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        if rows > 0:
            table = file.read_row_group(group).slice(0, rows)
            rows -= table.num_rows
            yield table
    file.close()


@contextmanager
def _scratch(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot write {path}: {cause(error)}") from error
