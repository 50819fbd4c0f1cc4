"""The manifest lists the side tables' shards; verify says what is wrong with each kind of damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from rollouts.evidence.manifest import write_evidence
from rollouts.evidence.verify import differences
from tests.judged_runs import (
    RUN_ID,
    judged_run,
    opened,
    order_at,
    shard,
)

Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("judged")
    judged_run(root)
    return root


@pytest.fixture
def root(judged: Path, tmp_path: Path) -> Path:
    shutil.copytree(judged, tmp_path / "run")
    return tmp_path / "run"


def found(root: Path, table: str, change: Change) -> str:
    path = shard(root, table)
    pq.write_table(change(pq.read_table(path, partitioning=None)), path)
    return "\n".join(differences(opened(root)))


def with_column(name: str, values: Callable[[list[Any]], list[Any]]) -> Change:
    def change(table: pa.Table) -> pa.Table:
        at, column = table.schema.get_field_index(name), table.column(name)
        return table.set_column(at, table.schema.field(at), pa.array(values(column.to_pylist()), column.type))

    return change


def test_a_judged_run_has_no_differences(root: Path) -> None:
    assert differences(opened(root)) == []


def test_the_manifest_lists_each_shard_with_rows_bytes_and_hash(root: Path) -> None:
    tables, order = write_evidence(opened(root))["tables"], order_at(root)
    assert {name: table["rows"] for name, table in tables.items() if "/" in name} == {
        f"grades/{order.grader_id}": 3,
        f"summaries/{order.summarizer_id}": 3,
        f"credit/{order.credit_id}": 5 + 6 + 7,
        f"calls/{order.grader_id}": 3,
        f"calls/{order.summarizer_id}": 3,
    }
    listed = tables[f"grades/{order.grader_id}"]["shards"]
    assert [entry["name"] for entry in listed] == ["part-0000000-0.parquet", "part-0000001-0.parquet"]
    assert listed[0]["bytes"] == shard(root, "grades").stat().st_size


@pytest.mark.parametrize(
    ("table", "change", "told"),
    [
        ("grades", lambda t: pa.concat_tables([t, t.slice(0, 1)]), "judged.rule.oracle.1.0 0 0 stands 2 times"),
        ("summaries", lambda t: pa.concat_tables([t, t.slice(0, 1)]), "judged.rule.oracle.1.0 0 stands 2 times"),
        ("credit", lambda t: t.slice(1), "judged.rule.oracle.1.0, grading 0: 4 rows for 5 decisions"),
        ("summaries", with_column("decisions", lambda c: [c[0] - 1, *c[1:]]), "has 4 decisions in its spans, and 5"),
        ("calls", lambda t: t.slice(1), "of a grade is missing"),
        ("grades", with_column("run_id", lambda c: ["other"] * len(c)), "rows of run 'other'"),
        ("grades", with_column("unit", lambda c: [1] * len(c)), "rows of another unit"),
        ("grades", with_column("episode_id", lambda c: ["x", *c[1:]]), "x is no completed episode of it"),
        ("grades", with_column("goal_achievement", lambda c: [0.9] * len(c)), "sha256"),
    ],
)
def test_damage_is_told(root: Path, table: str, change: Change, told: str) -> None:
    assert told in found(root, table, change)


def test_a_degraded_entry_may_have_a_later_one_beside_it_and_only_such_a_one(root: Path) -> None:
    path, rows = shard(root, "summaries"), pq.read_table(shard(root, "summaries"), partitioning=None)
    late = path.with_name("part-0000000-1.parquet")
    pq.write_table(rows.slice(0, 1), late)
    assert "judged.rule.oracle.1.0 0 stands 2 times" in "\n".join(differences(opened(root)))
    pq.write_table(with_column("status", lambda c: ["degraded", *c[1:]])(rows), path)
    told = "\n".join(differences(opened(root)))
    assert "stands" not in told
    assert "decisions in its spans" not in told


def test_a_torn_shard_is_told(root: Path) -> None:
    path = shard(root, "grades")
    path.write_bytes(path.read_bytes()[:50])
    assert "is not a whole Parquet file" in "\n".join(differences(opened(root)))


@pytest.mark.parametrize("torn", ["grades", "calls", "summaries"])
def test_beside_a_torn_shard_all_others_are_still_checked(root: Path, torn: str) -> None:
    """The torn file by its name; the credit of the same unit and the grades of the next, which are wrong too."""
    path, later = shard(root, torn), shard(root, "grades").with_name("part-0000001-0.parquet")
    path.write_bytes(path.read_bytes()[:-8])
    strange = with_column("run_id", lambda c: ["other"] * len(c))
    pq.write_table(strange(pq.read_table(later, partitioning=None)), later)
    told = found(root, "credit", lambda t: t.slice(1))
    assert f"{path}: {path} is not a whole Parquet file" in told
    assert "judged.rule.oracle.1.0, grading 0: 4 rows for 5 decisions" in told
    assert "unit 1: rows of run 'other'" in told


def test_a_part_of_a_unit_that_is_not_committed_is_told(root: Path) -> None:
    path = shard(root, "grades")
    shutil.copy(path, path.with_name("part-0000009-1.parquet"))
    said = "\n".join(differences(opened(root)))
    assert "unit 9 is not committed" in said
    assert "unit 9 has 1 parts and among them part-0000009-1.parquet" in said


def test_an_id_that_nobody_can_read_is_told(root: Path) -> None:
    (root / RUN_ID / "grades" / f"{order_at(root).grader_id}.json").unlink()
    assert ".json is missing" in "\n".join(differences(opened(root)))
