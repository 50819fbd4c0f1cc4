from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow.parquet as pq
import pytest

from rollouts.records import EpisodeKey
from rollouts.shards.schemas import SCHEMA_VERSION
from rollouts.shards.side_rows import episode_columns, read_distinct, read_side, write_side
from rollouts.shards.side_schemas import SIDE_EXEMPT, SIDE_SCHEMAS
from rollouts.store.storage import LocalStorage

KEY = EpisodeKey("defend_the_center", "rule", "org/我的:8b", 7, 2)
GRADE = {**episode_columns("a-run", KEY), "grading": 0, "repeat": 1, "status": "graded", "flags": ["fence"]}


def test_a_row_comes_back_with_nulls_where_nothing_was_said(tmp_path: Path) -> None:
    shard = write_side(tmp_path / "spool", "grades", [GRADE], "part-0000003-1.parquet")
    assert (shard.name, shard.rows) == ("part-0000003-1.parquet", 1)
    (row,) = read_side(LocalStorage(tmp_path), ["spool"])
    assert {name: value for name, value in row.items() if value is not None} == GRADE
    assert row["policy"] == "org/我的:8b"


def test_no_rows_are_a_whole_shard_too(tmp_path: Path) -> None:
    write_side(tmp_path / "spool", "credit", [], "x.parquet")
    assert read_side(LocalStorage(tmp_path), ["spool"]) == []


def test_a_column_that_the_table_has_not_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="grades has no column 'r_human'"):
        write_side(tmp_path / "spool", "grades", [{**GRADE, "r_human": 1.0}], "x.parquet")


def test_distinct_rows_of_a_long_shard(tmp_path: Path) -> None:
    rows = [{**episode_columns("a", KEY), "grading": tick % 2, "tick": tick} for tick in range(300)]
    write_side(tmp_path / "spool", "credit", rows, "x.parquet")
    found = read_distinct(LocalStorage(tmp_path), "spool", ("episode_id", "grading"))
    assert sorted(row["grading"] for row in found) == [0, 1]


@pytest.mark.parametrize("table", SIDE_SCHEMAS)
def test_every_table_says_its_version_and_has_only_types_that_readers_know(table: str, tmp_path: Path) -> None:
    schema = SIDE_SCHEMAS[table]
    assert schema.metadata[b"schema_version"] == SCHEMA_VERSION.encode()
    assert not [field for field in schema if "map" in str(field.type)]
    path = tmp_path / "part-0000000-0.parquet"
    row: dict[str, Any] = episode_columns("a-run", KEY)
    write_side(path, table, [row], path.name)
    assert pq.read_schema(path).equals(schema)
    assert list(pd.read_parquet(path).columns) == schema.names
    loaded = datasets.load_dataset("parquet", data_files=str(path), split="train", streaming=True)
    assert next(iter(loaded))["episode_id"] == KEY.episode_id


@pytest.mark.parametrize("table", SIDE_EXEMPT)
def test_columns_that_may_differ_are_columns(table: str) -> None:
    assert set(SIDE_SCHEMAS[table].names) >= SIDE_EXEMPT[table]
