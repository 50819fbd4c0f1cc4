"""Verify finds nothing in a whole run, and says what is wrong with each kind of damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import write_evidence
from rollouts.evidence.verify import differences
from tests.made_runs import made_run

STEPS = "steps/part-0000000.parquet"
EPISODES = "episodes/part-0000000.parquet"


@pytest.fixture
def run(tmp_path: Path) -> CommittedRun:
    made = made_run(tmp_path, policies=("half",))
    write_evidence(made)
    return made


def place(run: CommittedRun, name: str) -> Path:
    return Path(run.storage.full(run.path(name)))


def found(run: CommittedRun) -> str:
    return "\n".join(differences(CommittedRun.open(run.folder)))


def edit_manifest(run: CommittedRun, change: Callable[[dict[str, Any]], None]) -> None:
    path = place(run, "manifest.json")
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def rewrite(run: CommittedRun, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Another whole file under the same name, as a careless tool would leave it."""
    path = place(run, name)
    table = change(pq.read_table(path, partitioning=None))
    pq.write_table(table, path)


def same_size(run: CommittedRun, name: str, at: int) -> None:
    """One bit turned over: the file keeps its length and its footer."""
    path = place(run, name)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_whole_run_has_no_differences(run: CommittedRun) -> None:
    assert differences(run) == []


def test_owed_episodes_are_missing(tmp_path: Path) -> None:
    made = made_run(tmp_path)
    write_evidence(made)
    assert differences(made) == ["3 of 6 planned episodes are missing, the first is counting.rule.absent.1.0"]


def test_a_run_without_manifest(run: CommittedRun) -> None:
    place(run, "manifest.json").unlink()
    assert differences(run) == ["manifest.json is missing"]


@pytest.mark.parametrize("text", ["", "[]", '{"results": '])
def test_a_manifest_that_is_none(run: CommittedRun, text: str) -> None:
    place(run, "manifest.json").write_text(text)
    (difference,) = differences(run)
    assert difference.startswith("manifest.json cannot be read: ")


def test_a_number_that_was_improved(run: CommittedRun) -> None:
    def improve(manifest: dict[str, Any]) -> None:
        manifest["results"][0]["left_aggregate"]["mean"] = 5.5

    edit_manifest(run, improve)
    assert differences(run) == ["results[0].left_aggregate.mean: manifest.json says 5.5, the run itself 5.0"]


def test_the_last_digit_may_differ_and_no_more(run: CommittedRun) -> None:
    def set_ece(value: float) -> Callable[[dict[str, Any]], None]:
        return lambda manifest: manifest["results"][0]["rubric_agreement"].update(ece=value)

    edit_manifest(run, set_ece(2 / 3 * (1 + 1e-15)))
    assert differences(run) == []
    edit_manifest(run, set_ece(2 / 3 * (1 + 1e-6)))
    assert len(differences(run)) == 1


@pytest.mark.parametrize(
    ("key", "value"), [("n_out_of_schema", 0), ("n_decisions", 6), ("seeds_published", False), ("seeds", [1, 2])]
)
def test_every_part_of_a_block_is_compared(run: CommittedRun, key: str, value: object) -> None:
    edit_manifest(run, lambda manifest: manifest["results"][0].update({key: value}))
    (difference,) = differences(run)
    assert difference.startswith(f"results[0].{key}: ")


def test_a_key_that_is_gone_or_new(run: CommittedRun) -> None:
    edit_manifest(run, lambda manifest: manifest["results"][0].pop("rubric_agreement"))
    edit_manifest(run, lambda manifest: manifest["coverage"].update(bonus=1))
    assert len(differences(run)) == 2


def test_a_record_that_was_changed(run: CommittedRun) -> None:
    record = json.loads(place(run, "run.json").read_text())
    record["configuration"]["seed"] = 7
    place(run, "run.json").write_text(json.dumps(record))
    assert found(run) == "configuration.seed: manifest.json says 0, the run itself 7"


def test_a_bit_turned_over_in_the_steps(run: CommittedRun) -> None:
    """In the first picture: every number stays as it was, the hash alone knows."""
    at = place(run, STEPS).read_bytes().index(b"a picture")
    same_size(run, STEPS, at)
    (difference,) = differences(run)
    assert difference.startswith(f"{STEPS}: sha256 is ")


def test_steps_that_are_gone(run: CommittedRun) -> None:
    place(run, STEPS).unlink()
    assert f"its steps shard {Path(STEPS).name} is missing" in found(run)
    assert "2 of 3 planned episodes are missing" in found(run)


def test_a_torn_episodes_shard(run: CommittedRun) -> None:
    path = place(run, EPISODES)
    path.write_bytes(path.read_bytes()[:-8])
    assert "is not a whole Parquet file" in found(run)


def test_a_strange_shard(run: CommittedRun) -> None:
    place(run, "steps/part-0000099.parquet").write_bytes(place(run, STEPS).read_bytes())
    assert "part-0000099.parquet: no committed unit names it" in found(run)


def test_a_doubled_decision(run: CommittedRun) -> None:
    """The unit was read before: what `verify` itself reads is the doubled file."""
    rewrite(run, STEPS, lambda table: pa.concat_tables([table, table.slice(1, 1)]))
    listed = "\n".join(differences(run))
    assert f"{STEPS}: episode counting.rule.half.1.0: 1 ticks doubled, the first is 1" in listed
    assert f"{STEPS}: rows is 5, its episodes shard says 4" in listed
    assert "results[0].n_decisions: manifest.json says 5, the run itself 6" in listed


def test_a_missing_decision(run: CommittedRun) -> None:
    rewrite(run, STEPS, lambda table: table.slice(1))
    listed = "\n".join(differences(run))
    assert "episode counting.rule.half.1.0: 1 ticks missing, the first is 0" in listed


def test_decisions_of_an_episode_that_failed(run: CommittedRun) -> None:
    def fail_first(table: pa.Table) -> pa.Table:
        status = pa.array(["failed", "completed"])
        return table.set_column(table.schema.get_field_index("status"), table.schema.field("status"), status)

    rewrite(run, EPISODES, fail_first)
    listed = "\n".join(differences(run))
    assert f"{STEPS}: 3 rows of counting.rule.half.1.0, which is no completed episode of its unit" in listed
    assert "tables.episodes.shards[0].sha256: " in listed


def test_an_episode_that_is_doubled_missing_or_strange(run: CommittedRun) -> None:
    rewrite(run, EPISODES, lambda table: pa.concat_tables([table.slice(0, 1), table.slice(0, 1)]))
    listed = "\n".join(differences(run))
    assert f"{EPISODES}: episode counting.rule.half.1.0 is doubled" in listed
    assert f"{EPISODES}: episode counting.rule.half.2.0 is missing" in listed
    place(run, EPISODES).write_bytes(place(run, "episodes/part-0000001.parquet").read_bytes())
    assert f"{EPISODES}: episode counting.rule.half.3.0 is not planned there" in "\n".join(differences(run))


def test_counts_out_of_schema_are_recounted(run: CommittedRun) -> None:
    def forget(table: pa.Table) -> pa.Table:
        counts = pa.array([0, 0], pa.int64())
        at = table.schema.get_field_index("n_out_of_schema")
        return table.set_column(at, table.schema.field("n_out_of_schema"), counts)

    rewrite(run, EPISODES, forget)
    assert f"{EPISODES}: counting.rule.half.1.0 says 0 out of schema, its rows 1" in "\n".join(differences(run))


def test_a_row_that_says_another_acted(run: CommittedRun) -> None:
    def promote(table: pa.Table) -> pa.Table:
        who = pa.array(["teacher", *table["acted_by"].to_pylist()[1:]])
        return table.set_column(table.schema.get_field_index("acted_by"), table.schema.field("acted_by"), who)

    rewrite(run, STEPS, promote)
    told = "unit 0: in 1 decisions another acted than their row says; the first is tick 0 of counting.rule.half.1.0"
    assert told in "\n".join(differences(run))


def test_nobody_acts_only_where_the_episode_ended_too_early(run: CommittedRun) -> None:
    """Rows 0 to 2 are those of the first episode, row 3 is the only one of the second."""

    def silence(*rows: int) -> Callable[[pa.Table], pa.Table]:
        def change(table: pa.Table) -> pa.Table:
            for name in ("acted_by", "effective_action"):
                values = [None if at in rows else value for at, value in enumerate(table[name].to_pylist())]
                field = table.schema.field(name)
                table = table.set_column(table.schema.get_field_index(name), field, pa.array(values, pa.string()))
            return table

        return change

    rewrite(run, STEPS, silence(2, 3))
    assert "another acted" not in "\n".join(differences(run))
    rewrite(run, STEPS, silence(1))
    assert "in 1 decisions another acted than their row says; the first is tick 1 of" in "\n".join(differences(run))


def test_rows_of_another_run(run: CommittedRun) -> None:
    def rename(table: pa.Table) -> pa.Table:
        return table.set_column(0, table.schema.field("run_id"), pa.array(["other"] * table.num_rows))

    rewrite(run, EPISODES, rename)
    assert f"{EPISODES}: rows of run 'other'" in "\n".join(differences(run))
