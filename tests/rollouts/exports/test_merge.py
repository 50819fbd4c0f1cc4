"""Several runs as one set: read by our readers, by `datasets`, checked by `rollouts verify`. Both runs have episodes of
the same ids, and only one of them is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rollouts.cli import main
from rollouts.readers import count_rows, read_table
from rollouts.shards.schemas import SCHEMA_VERSION
from tests.exported_runs import known_units, make, played, provenance
from tests.rollouts.exports.conftest import Exported


@pytest.fixture
def second(tmp_path: Path) -> Path:
    make(tmp_path / "second", "second", known_units())
    return tmp_path / "second" / "second"


@pytest.fixture
def merged(exported: Exported, known: Path, second: Path) -> Path:
    out, told = exported("merge", runs=(known, second))
    assert (told["written"], told["left_out"]) == (12, {"superseded": 2})
    return out


def rows_of(folder: Path, *columns: str, **filters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_table(folder, columns or None, **filters).to_pylist()
    return found


def test_our_readers_read_it_as_they_read_the_runs(known: Path, second: Path, merged: Path) -> None:
    assert rows_of(merged) == rows_of(known) + rows_of(second)
    assert count_rows(merged, disagreement="model") == 6  # s, x, s in each


def test_grades_and_credit_stay_with_their_run(known: Path, second: Path, merged: Path) -> None:
    joined = rows_of(merged, "run_id", "seed", "tick", "credit_value", "grade_status")
    of_seed_1 = [row for row in joined if row["seed"] == 1]
    assert [(row["run_id"], row["credit_value"]) for row in of_seed_1] == [
        *(("known", value) for value in (-0.5, 0.25, 1.0)),
        *(("second", None) for _ in range(3)),
    ]
    assert count_rows(merged, graded=True) == 3


def test_datasets_reads_its_tables(merged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    cache = str(tmp_path / "cache")
    tables = {name: datasets.load_dataset(str(merged), name, split="train", cache_dir=cache) for name in TABLES}
    assert {name: len(table) for name, table in tables.items()} == TABLES
    assert tables["steps"][0]["frame"].mode == "RGB"
    keys = [(row["run_id"], row["episode_id"]) for row in tables["episodes"].select_columns(["run_id", "episode_id"])]
    assert len(set(keys)) == 6


TABLES = {"steps": 12, "episodes": 6, "grades": 2, "credit": 3}
"""Of each run the episodes of seeds 1, 2 and 3 count, each once; two are judged, and one has credit."""


def episodes_of(folder: Path) -> list[tuple[str, int, int, int, str]]:
    rows = pq.read_table(folder / "episodes").to_pylist()
    return [(row["run_id"], row["unit"], row["seed"], row["steps"], row["steps_shard"]) for row in rows]


def test_small_shards_of_a_run_are_joined(merged: Path) -> None:
    """What the first play of seed 2 and the failed one of seed 3 left is gone."""
    assert episodes_of(merged) == [
        *(("known", 0, seed, steps, "part-0000000.parquet") for seed, steps in ((1, 3), (3, 1), (2, 2))),
        *(("second", 1, seed, steps, "part-0000001.parquet") for seed, steps in ((1, 3), (3, 1), (2, 2))),
    ]
    steps = pq.ParquetFile(merged / "steps" / "part-0000000.parquet")
    assert (steps.num_row_groups, steps.metadata.num_rows) == (1, 6)


def test_shards_stay_apart_where_they_are_large_enough(exported: Exported, known: Path) -> None:
    out, _ = exported("merge", "--shard-mb", "0.001")
    assert episodes_of(out) == [
        ("known", unit, seed, steps, f"part-{unit:07d}.parquet")
        for unit, (seed, steps) in enumerate([(1, 3), (3, 1), (2, 2)])
    ]
    assert rows_of(out) == rows_of(known)
    assert count_rows(out, min_credit=0.25) == 2


def test_policies_stay_apart(exported: Exported, known: Path, tmp_path: Path) -> None:
    make(tmp_path / "other", "other", ({1: played(1, "dd")},), policy="other")
    out, _ = exported("merge", runs=(known, tmp_path / "other" / "other"))
    assert len(rows_of(out, policy="other")) == 2
    assert len(rows_of(out, policy="half")) == 6


def test_a_merged_set_can_be_exported_and_merged_again(
    exported: Exported, known: Path, second: Path, merged: Path, tmp_path: Path
) -> None:
    direct, again = exported("sft", runs=(known, second))[0], exported("sft", runs=(merged,))[0]
    assert pq.read_table(direct / "data").equals(pq.read_table(again / "data"))
    make(tmp_path / "third", "third", ({1: played(1, "dd")},))
    out, _ = exported("merge", runs=(merged, tmp_path / "third" / "third"))
    assert rows_of(out) == rows_of(merged) + rows_of(tmp_path / "third" / "third")
    assert list(provenance(out)["runs"][0]["run_ids"]) == ["known", "second"]


def test_runs_stay_apart_in_a_set_that_is_merged_again(exported: Exported, merged: Path) -> None:
    """Neighbouring units of two runs have episodes of the same ids, and only one of them is judged."""
    out, _ = exported("merge", runs=(merged,))
    columns = ("run_id", "episode_id", "tick", "grade_status", "credit_value")
    assert rows_of(out, *columns) == rows_of(merged, *columns)
    assert {run_id for run_id, *_ in episodes_of(out)} == {"known", "second"}
    assert pq.read_metadata(out / "steps" / "part-0000001.parquet").num_rows == 6


def test_filters_take_whole_episodes(exported: Exported, known: Path, second: Path) -> None:
    out, told = exported("merge", "--graded", runs=(known, second))
    assert [(row["run_id"], row["seed"], row["tick"]) for row in rows_of(out)] == [("known", 1, t) for t in range(3)]
    assert told["left_out"] == {"superseded": 2, "ungraded": 9}


def refusal(capsys: pytest.CaptureFixture[str], out: Path, *words: object) -> str:
    capsys.readouterr()
    assert main(["export", *map(str, words), "--format", "merge", "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert not out.exists()
    return line


def test_what_cannot_be_told_apart_is_refused(
    known: Path, merged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "two of the runs have the id known" in refusal(capsys, tmp_path / "out", merged, known)


def test_another_schema_version_is_refused(second: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = second / "episodes" / "part-0000002.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"schema_version": b"1"}), path)
    line = refusal(capsys, tmp_path / "out", second)
    assert f"part-0000002.parquet has schema version 1: only {SCHEMA_VERSION} is merged" in line


@pytest.mark.parametrize("words", [("--credit",), ("--min-credit", "0"), ("--limit", "3")])
def test_flags_that_would_tear_episodes_apart_are_refused(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert f"{words[0]} has no place in --format merge" in refusal(capsys, tmp_path / "out", known, *words)


def test_nobody_grades_or_plays_it_on(merged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(merged), "--grade", "heuristic"]) == 2
    assert "there is no run in" in capsys.readouterr().err


def verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = main(["verify", str(folder)])
    return code, capsys.readouterr().out.splitlines()


def test_verify_finds_what_was_changed(merged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(merged, capsys) == (0, [f"as its export.json says: {merged}"])
    (merged / "grades" / "stray.txt").write_text("mine")
    (merged / "plan" / "0000000.parquet").write_bytes(b"")
    (merged / "merged.json").unlink()
    code, lines = verified(merged, capsys)
    assert code == 1
    assert lines == [
        "grades/stray.txt is there, and export.json does not name it",
        "merged.json is missing",
        "plan/0000000.parquet has another sha256",
        f"3 differences in {merged}",
    ]


def test_verify_finds_keys_that_are_there_twice(merged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A set whose hashes are right and whose rows are not: somebody wrote both."""
    path = merged / "steps" / "part-0000001.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)
    rewrite_hash(merged, "steps/part-0000001.parquet")
    code, lines = verified(merged, capsys)
    assert code == 1
    assert lines[:-1] == [
        "unit 1: counting.rule.half.1.0 of run second has 4 decisions, not 0 to 3, in order",
        "13 rows, not 12",
    ]


def rewrite_hash(folder: Path, name: str) -> None:
    import hashlib
    import json

    told = provenance(folder)
    (entry,) = [file for file in told["files"] if file["name"] == name]
    entry["sha256"] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "export.json").write_text(json.dumps(told))
