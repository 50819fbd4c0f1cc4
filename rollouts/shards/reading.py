"""Reads shards and plan files back, from any storage, in bounded memory. Whoever reads says which shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from rollouts.errors import StorageError
from rollouts.records import PlannedEpisode, ShardFile, Unit
from rollouts.store.storage import Storage
from rollouts.store.storage_faults import cause

BATCH_ROWS = 1_024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMMIT = ["episode_id", "status", "stage", "cause", "steps_shard", "steps_shard_rows", "steps_shard_bytes"]
_COMMIT_COLUMNS = [*_COMMIT, "steps_shard_sha256"]


class TornShard(StorageError):
    """A file that is no whole Parquet file (cut off, empty, or something else)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed episode as its `episodes` row has it."""

    episode_id: str
    stage: str
    cause: str


@dataclass(frozen=True, slots=True)
class Commit:
    """What a unit's `episodes` shard says of the unit. `steps` is None where no episode left a decision."""

    unit: int
    episodes: int
    steps: ShardFile | None
    failures: tuple[Failure, ...]


def read_table(storage: Storage, path: str, columns: Sequence[str] | None = None) -> Any:
    """A `pyarrow.Table` of some columns (all by default; `frame.bytes` style names pick inside a struct)."""
    with _opened(storage, path) as file:
        return file.read(columns=columns)


def iter_batches(
    storage: Storage, path: str, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
) -> Iterator[Any]:
    """`pyarrow.RecordBatch`es of at most `batch_rows` rows; holds one row group of the columns asked for.

    Group by group, since Arrow's own iteration keeps what it has read (six times a shard's groups were measured).
    """
    with _opened(storage, path) as file:
        for group in range(file.num_row_groups):
            yield from file.read_row_group(group, columns=columns).to_batches(max_chunksize=batch_rows)


def group_sizes(storage: Storage, path: str) -> tuple[int, ...]:
    """Rows of each row group, by the footer. Errors: `TornShard`, `FileNotFoundError`."""
    with _opened(storage, path) as file:
        return tuple(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))


def read_group(storage: Storage, path: str, group: int, columns: Sequence[str]) -> Any:
    """A `pyarrow.Table` of some columns of one row group. Starts no threads, so that it works in a forked process."""
    with _opened(storage, path) as file:
        return file.read_row_group(group, columns=columns, use_threads=False)


def to_rows(batch: Any) -> list[dict[str, Any]]:
    """The rows of a `pyarrow.RecordBatch`, as `to_pylist` gives them; times are in UTC.

    Times go through whole numbers: for a time Arrow imports pandas where that is installed, which holds up the first
    question of a fresh grader longer than all the rest.
    """
    times = [field.name for field in batch.schema if pa.types.is_timestamp(field.type) and field.type.unit == "us"]
    for name in times:
        batch = batch.set_column(batch.schema.get_field_index(name), name, batch.column(name).view(pa.int64()))
    rows: list[dict[str, Any]] = batch.to_pylist()
    for row in rows:
        row.update((name, _EPOCH + timedelta(microseconds=row[name])) for name in times if row[name] is not None)
    return rows


def count_rows(storage: Storage, path: str) -> int:
    """Rows by the footer, which only a whole file has. Errors: `TornShard`, `FileNotFoundError`."""
    with _opened(storage, path) as file:
        return int(file.metadata.num_rows)


def read_metadata(storage: Storage, path: str) -> dict[str, str]:
    """What its writer said of a whole file beside the columns. Errors: `TornShard`, `FileNotFoundError`."""
    with _opened(storage, path) as file:
        return {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}


def read_commit(storage: Storage, path: str, unit: int) -> Commit:
    """Read what an `episodes` shard commits. Errors: `TornShard`, also where it has no row."""
    rows = read_table(storage, path, _COMMIT_COLUMNS).to_pylist()
    if not rows:
        raise TornShard(f"{storage.describe(path)} holds no episode")
    first = rows[0]
    name = first["steps_shard"]
    measures = (first["steps_shard_rows"], first["steps_shard_bytes"], first["steps_shard_sha256"])
    failures = tuple(Failure(r["episode_id"], r["stage"], r["cause"]) for r in rows if r["status"] == "failed")
    return Commit(unit, len(rows), ShardFile(name, *measures) if name else None, failures)


def read_plan(storage: Storage, path: str) -> tuple[Unit, ...]:
    """The units of one plan file, in the order in which they were planned."""
    episodes: dict[tuple[int, str, str, str], list[PlannedEpisode]] = {}
    for row in read_table(storage, path).to_pylist():
        unit = (row["unit"], row["scenario"], row["rubric"], row["policy"])
        episodes.setdefault(unit, []).append(PlannedEpisode(row["seed"], row["episode_index"], row["tries"]))
    return tuple(Unit(*unit, episodes=tuple(of_unit)) for unit, of_unit in episodes.items())


@contextmanager
def _opened(storage: Storage, path: str) -> Iterator[pq.ParquetFile]:
    """A Parquet file whose handle is closed in any case (reading only). Never buffers columns ahead: flat memory."""
    with storage.open_input(path) as source:
        try:
            yield pq.ParquetFile(source, pre_buffer=False)
        except (pa.ArrowInvalid, EOFError) as error:
            raise TornShard(f"{storage.describe(path)} is not a whole Parquet file: {cause(error)}") from error
        except OSError as error:
            raise StorageError(f"cannot read {storage.describe(path)}: {cause(error)}") from error
