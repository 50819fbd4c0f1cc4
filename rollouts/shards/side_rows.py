"""Rows of the side tables, as names and values, into whole Parquet files and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rollouts.errors import StorageError
from rollouts.records import EpisodeKey, ShardFile
from rollouts.shards.reading import read_table
from rollouts.shards.rows import to_array
from rollouts.shards.side_schemas import SIDE_SCHEMAS
from rollouts.shards.writing import write_table
from rollouts.store.storage import Storage

PLAY = "play"
"""The name in a file's metadata of the play that its rows judge (rollouts/run/side_survey.py)."""
SideRow = Mapping[str, Any]
"""Column → value. A column that is left out is null; one that the table has not is an error."""


def episode_columns(run_id: str, key: EpisodeKey) -> dict[str, Any]:
    """The key columns that every side table begins with."""
    return {
        "run_id": run_id,
        "episode_id": key.episode_id,
        "scenario": key.scenario,
        "rubric": key.rubric,
        "policy": key.policy,
        "seed": key.seed,
        "episode_index": key.index,
    }


def write_side(path: Path, table: str, rows: Sequence[SideRow], name: str, play: str | None = None) -> ShardFile:
    """Write `rows` (none are fine too) of the side table `table` to `path`; the shard will be called `name`. `play`
    names the play that they judge: the sha256 of its `steps` shard.

    Errors: `ValueError` naming a column that the table has not, `StorageError` where the disk fails.
    """
    schema = SIDE_SCHEMAS[table]
    if play is not None:
        schema = schema.with_metadata({**(schema.metadata or {}), PLAY: play})
    unknown = set[str]().union(*rows) - set(schema.names)
    if unknown:
        raise ValueError(f"{table} has no column {min(unknown)!r}")
    arrays = [to_array([row.get(column.name) for row in rows], column.type) for column in schema]
    return write_table(path, pa.Table.from_arrays(arrays, schema=schema), name)


def read_side(storage: Storage, paths: Iterable[str], columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of some shards, one after the other. Errors: `StorageError`."""
    return [row for path in paths for row in _read(storage, path, columns).to_pylist()]


def read_distinct(storage: Storage, path: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The different rows that some columns of a shard have; their order means nothing. Errors: `StorageError`."""
    rows: list[dict[str, Any]] = _read(storage, path, columns).group_by(list(columns)).aggregate([]).to_pylist()
    return rows


def _read(storage: Storage, path: str, columns: Sequence[str] | None) -> Any:
    try:
        return read_table(storage, path, columns)
    except FileNotFoundError as error:
        raise StorageError(f"{storage.describe(path)} is gone") from error
