"""The manifest of a run whose rows are known: every number by hand, from committed shards alone."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import read_manifest, write_evidence
from rollouts.evidence.results import TRIPLES_LOCATION
from rollouts.metrics import AGREEMENT_NOTE
from tests.made_runs import RUN_ID, made_run

BLOCK_KEYS = {
    *("scenario", "rubric", "policy", "tics", "step_cap", "episodes_per_seed", "seeds", "seeds_published"),
    *("n_decisions", "n_out_of_schema", "left_by_episode", "left_aggregate", "rubric_agreement", "triples"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CommittedRun:
    return made_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def manifest(run: CommittedRun) -> dict[str, Any]:
    return write_evidence(run)


def test_there_is_one_block_a_group_with_the_keys_of_the_protocol(manifest: dict[str, Any]) -> None:
    half, absent = manifest["results"]
    assert set(half) == set(absent) == BLOCK_KEYS
    assert [(b["scenario"], b["rubric"], b["policy"]) for b in (half, absent)] == [
        ("counting", "rule", "half"),
        ("counting", "rule", "absent"),
    ]
    assert (half["tics"], half["step_cap"], half["episodes_per_seed"]) == (4, 9, 1)
    assert half["seeds"] == [1, 2, 3]
    assert half["seeds_published"] is True


def test_the_metric_is_of_completed_episodes_and_of_the_later_row(manifest: dict[str, Any]) -> None:
    block = manifest["results"][0]
    assert block["left_by_episode"] == [
        {"seed": 1, "episode_index": 0, "value": 2.0, "steps": 3},
        {"seed": 2, "episode_index": 0, "value": 4.0, "steps": 1},
        {"seed": 3, "episode_index": 0, "value": 9.0, "steps": 1},
    ]
    numbers = block["left_aggregate"]
    assert (numbers["mean"], numbers["min"], numbers["max"], numbers["n_episodes"]) == (5.0, 2.0, 9.0, 3)
    assert numbers["sd"] == pytest.approx(math.sqrt(26 / 3))


def test_agreement_counts_asked_rows_and_none_out_of_schema(manifest: dict[str, Any]) -> None:
    block = manifest["results"][0]
    agreement = block["rubric_agreement"]
    assert (block["n_decisions"], block["n_out_of_schema"]) == (5, 1)
    assert (agreement["n"], agreement["n_usable"], agreement["agreement"]) == (4, 3, 0.5)
    assert agreement["brier"] == pytest.approx((0.32 + 0.98 + 0.01) / 3)
    assert agreement["ece"] == pytest.approx((0.4 + 0.7 + 0.9) / 3)
    assert agreement["note"] == AGREEMENT_NOTE


def test_a_group_without_episodes_has_nulls_and_n_0(manifest: dict[str, Any]) -> None:
    block = manifest["results"][1]
    assert block["left_aggregate"] == {"mean": None, "sd": None, "min": None, "max": None, "n_episodes": 0}
    agreement = {**block["rubric_agreement"], "note": ""}
    assert agreement == {"n": 0, "agreement": None, "brier": None, "ece": None, "n_usable": 0, "note": ""}
    assert (block["n_decisions"], block["n_out_of_schema"], block["left_by_episode"]) == (0, 0, [])


def test_triples_are_the_rows_with_a_frame(manifest: dict[str, Any]) -> None:
    assert manifest["results"][0]["triples"] == {"enabled": True, "location": TRIPLES_LOCATION, "n_triples": 3}


def test_without_frames_there_are_no_triples_and_without_a_teacher_no_agreement(run: CommittedRun) -> None:
    """Told by the run's record alone."""
    record = json.loads(json.dumps(run.record))
    record["configuration"]["frames"] = "none"
    record["scenarios"]["counting"]["has_teacher"] = False
    changed = CommittedRun(run.folder, record, run.plan, run.commits)
    block = write_evidence(changed)["results"][0]
    write_evidence(run)
    assert block["triples"] == {"enabled": False}
    assert "rubric_agreement" not in block


def test_coverage_and_failures(manifest: dict[str, Any]) -> None:
    total = {key: manifest["coverage"][key] for key in ("planned", "completed", "failed", "owed")}
    assert total == {"planned": 6, "completed": 3, "failed": 0, "owed": 3}
    half = manifest["coverage"]["groups"][0]
    assert half["out_of_schema_by_cause"] == {"not_an_option": 1}
    assert half["decisions_per_s_of_play"] == pytest.approx(5 / 6)
    assert manifest["failures"] == []


def test_a_failed_episode_is_told_by_stage_and_cause(run: CommittedRun) -> None:
    """Before the retry was committed, the first try's row counts."""
    earlier = {number: commit for number, commit in run.commits.items() if number != max(run.commits)}
    before = CommittedRun(run.folder, run.record, run.plan, earlier)
    manifest = write_evidence(before)
    write_evidence(run)
    assert manifest["results"][0]["left_aggregate"]["n_episodes"] == 2
    assert manifest["coverage"]["failed"] == 1
    assert manifest["failures"] == [
        {
            "scenario": "counting",
            "rubric": "rule",
            "policy": "half",
            "stage": "engine",
            "cause": "the engine died (signal 9)",
            "n": 1,
            "first_episodes": ["counting.rule.half.3.0"],
        }
    ]


def test_tables_list_every_shard_with_rows_and_sha256(run: CommittedRun, manifest: dict[str, Any]) -> None:
    tables = manifest["tables"]
    assert (tables["steps"]["rows"], tables["episodes"]["rows"]) == (5, 4)
    for table, shards in tables.items():
        for shard in shards["shards"]:
            data = run.storage.read_bytes(run.path(table, shard["name"]))
            assert (shard["bytes"], shard["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert [shard["rows"] for shard in tables["steps"]["shards"]] == [4, 1]


def test_the_bundle_says_how_to_run_it_again(manifest: dict[str, Any]) -> None:
    assert (manifest["run_id"], manifest["episodic"], manifest["started_at"]) == (
        RUN_ID,
        True,
        "2030-01-01T12:00:00+00:00",
    )
    assert manifest["engine"] == {"name": "vizdoom", "version": "0.0"}
    assert manifest["scenarios"]["counting"]["instructions"] == {"rule": "Go down."}
    assert manifest["scenarios"]["counting"]["options"] == ["stay", "down"]
    assert manifest["scenarios"]["counting"]["provenance"] == {"cfg_sha256": "none"}
    assert manifest["policies"]["half"]["model"] == "half|model"
    assert manifest["configuration"]["step_cap"] == 9
    assert manifest["versions"]["python"]
    assert set(manifest["source"]) == {"revision", "dirty"}


def test_the_file_holds_what_was_returned_as_strict_json(run: CommittedRun, manifest: dict[str, Any]) -> None:
    found = read_manifest(run)
    assert found is not None
    timeless = [{k: v for k, v in m.items() if k != "written_at"} for m in (found, manifest)]
    assert timeless[0] == json.loads(json.dumps(timeless[1]))


def test_sections_of_others_stand_beside(run: CommittedRun) -> None:
    assert write_evidence(run, {"grades": lambda of: {"of": of.folder.run_id}})["grades"] == {"of": RUN_ID}


def test_the_root_of_the_run_may_move(tmp_path: Path) -> None:
    """Nothing but `location` names the place."""
    first, second = (write_evidence(made_run(tmp_path / name)) for name in ("a", "b"))
    changing = {"location", "written_at", "tables"}
    assert {k: v for k, v in first.items() if k not in changing} == {
        k: v for k, v in second.items() if k not in changing
    }
