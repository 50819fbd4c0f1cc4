"""Shards: every column by value, bounded row groups, failed episodes without a trace, whole or nothing."""

from __future__ import annotations

import hashlib
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rollouts.errors import StorageError
from rollouts.naming import slug
from rollouts.records import (
    Answer,
    Episode,
    EpisodeFailure,
    EpisodeKey,
    Frame,
    PlannedEpisode,
    ShardFile,
    Snapshot,
    Thing,
    Transition,
    Unit,
)
from rollouts.shards.reading import count_rows, iter_batches, read_commit, read_plan, read_table
from rollouts.shards.schemas import EPISODES, EPISODES_EXEMPT, PLAN, STEPS, STEPS_EXEMPT
from rollouts.shards.writing import StepWriter, write_episodes, write_plan
from rollouts.store.storage import LocalStorage
from tests.shard_doubles import NOON, OPTIONS, RUN_ID, decision, episode, failure, provenance, unit

KEY = EpisodeKey("defend_the_center", "rule", "oracle", 42106076, 0)
STEPS_COLUMNS = """
run_id episode_id scenario rubric policy seed episode_index tick game_tic tics state policy_text frame teacher_action
model_action effective_action acted_by asked out_of_schema schema_error error parse_rule options options_shown
probabilities probability_bound option_mass confidence latency_ms waited_tics messages raw_reply finish_reason
reply_tokens reply_logprobs tokens_in tokens_out model_version health ammo kills health_after ammo_after kills_after
n_visible events variables reward terminated truncated decided_at
"""
"""As the design lists them, and `waited_tics` since version 2."""


def writer_at(path: Path) -> StepWriter:
    return StepWriter(path, "part-0000000", RUN_ID, 4, OPTIONS)


def write_one(path: Path, *decisions: Any, frames: list[bytes] | None = None) -> list[dict[str, Any]]:
    """The rows of one episode as read back."""
    writer = writer_at(path)
    writer.begin(KEY)
    for at, each in enumerate(decisions):
        writer.append(each, frames[at] if frames else None)
    writer.commit_episode()
    writer.close()
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def groups_of(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def ticks_of(path: Path) -> list[tuple[int, int]]:
    table = pq.read_table(path, columns=["seed", "tick"])
    return list(zip(table["seed"].to_pylist(), table["tick"].to_pylist(), strict=True))


def test_the_steps_table_has_the_columns_of_the_design_in_its_order() -> None:
    assert STEPS_COLUMNS.split() == STEPS.names
    assert {str(STEPS.field(name).type) for name in ("seed", "tick", "n_visible", "tokens_in", "kills_after")} == {
        "int64"
    }
    assert str(STEPS.field("decided_at").type) == "timestamp[us, tz=UTC]"
    assert str(STEPS.field("frame").type) == "struct<bytes: binary, path: string>"


def test_exempt_columns_exist() -> None:
    assert set(STEPS.names) >= STEPS_EXEMPT
    assert set(EPISODES.names) >= EPISODES_EXEMPT


def test_a_decision_comes_back_value_for_value(tmp_path: Path) -> None:
    answer = Answer(
        "dance",
        {"turn right": 0.25, "attack": 0.5, "fly": 0.9},
        confidence=0.5,
        latency_ms=12.5,
        parse_rule="json",
        options_shown=("A", "B", "C"),
        option_mass=0.75,
        probability_bound=0.125,
        policy_text="a status line",
        messages='[{"role": "user"}]',
        raw_reply='{"action": "dance"}',
        finish_reason="stop",
        reply_tokens=("da", "nce"),
        reply_logprobs=(-0.5, -1.5),
        tokens_in=120,
        tokens_out=2,
        model_version="m-1",
    )
    made = decision(
        7,
        answer,
        state="An imp stands left.",
        snapshot=Snapshot(28, health=80, ammo=9, kills=2, things=(Thing("Imp", "monster", 0.3, 0.2),) * 2),
        teacher_action="turn left",
        effective_action="attack",
        acted_by="fallback",
        schema_error="not_an_option",
        error="no such action",
        transition=Transition(
            1.5, None, True, False, "death", 0, 8, 3, ("kill", "death"), {"ARMOR": 5.0, "AMMO1": 2.0}
        ),
        terminated=True,
        waited_tics=35,
    )
    (row,) = write_one(tmp_path / "spool", made)
    assert row == {
        "run_id": RUN_ID,
        "episode_id": "defend_the_center.rule.oracle.42106076.0",
        "scenario": "defend_the_center",
        "rubric": "rule",
        "policy": "oracle",
        "seed": 42106076,
        "episode_index": 0,
        "tick": 7,
        "game_tic": 28,
        "tics": 4,
        "state": "An imp stands left.",
        "policy_text": "a status line",
        "frame": None,
        "teacher_action": "turn left",
        "model_action": "dance",
        "effective_action": "attack",
        "acted_by": "fallback",
        "asked": True,
        "out_of_schema": True,
        "schema_error": "not_an_option",
        "error": "no such action",
        "parse_rule": "json",
        "options": ["attack", "turn left", "turn right"],
        "options_shown": ["A", "B", "C"],
        "probabilities": [0.5, None, 0.25],
        "option_mass": 0.75,
        "probability_bound": 0.125,
        "confidence": 0.5,
        "latency_ms": 12.5,
        "waited_tics": 35,
        "messages": '[{"role": "user"}]',
        "raw_reply": '{"action": "dance"}',
        "finish_reason": "stop",
        "reply_tokens": ["da", "nce"],
        "reply_logprobs": [-0.5, -1.5],
        "tokens_in": 120,
        "tokens_out": 2,
        "model_version": "m-1",
        "health": 80,
        "ammo": 9,
        "kills": 2,
        "health_after": 0,
        "ammo_after": 8,
        "kills_after": 3,
        "n_visible": 2,
        "events": ["kill", "death"],
        "variables": [{"key": "AMMO1", "value": 2.0}, {"key": "ARMOR", "value": 5.0}],
        "reward": 1.5,
        "terminated": True,
        "truncated": False,
        "decided_at": NOON + timedelta(milliseconds=7),
    }


def test_what_is_not_there_is_null_and_the_schema_stays(tmp_path: Path) -> None:
    bare = decision(
        0, Answer(None, asked=False), teacher_action=None, snapshot=Snapshot(0), transition=Transition(0.0, None)
    )
    (row,) = write_one(tmp_path / "spool", bare)
    nulls = {name for name, value in row.items() if value is None}
    assert nulls >= {
        "frame",
        "probabilities",
        "waited_tics",
        "health",
        "kills_after",
        "variables",
        "model_action",
        "teacher_action",
    }
    assert (row["asked"], row["n_visible"], row["events"]) == (False, 0, [])
    assert pq.read_schema(tmp_path / "spool").equals(STEPS)
    assert pq.read_schema(tmp_path / "spool").metadata[b"schema_version"] == b"3"


def test_probabilities_are_kept_as_the_policy_gave_them(tmp_path: Path) -> None:
    odd = Answer("attack", {"attack": math.inf, "turn left": -1.0, "turn right": math.nan})
    strangers = Answer("attack", {"fly": 1.0})
    rows = write_one(tmp_path / "spool", decision(0, odd), decision(1, strangers))
    assert rows[0]["probabilities"][:2] == [math.inf, -1.0]
    assert math.isnan(rows[0]["probabilities"][2])
    assert rows[1]["probabilities"] is None


def test_half_a_character_in_a_reply_is_no_reason_to_fail(tmp_path: Path) -> None:
    answer = Answer("attack", raw_reply="ok \ud83d", reply_tokens=("ok", "\ud83d\ude00", "\ude00"))
    (row,) = write_one(tmp_path / "spool", decision(0, answer))
    assert row["raw_reply"] == "ok \ufffd"
    assert row["reply_tokens"] == ["ok", "\U0001f600", "\ufffd"]


def test_a_frame_is_its_bytes_and_a_path_that_says_what_they_are(tmp_path: Path) -> None:
    made = [b"\x89PNG first", b"\xff\xd8 second"]
    rows = write_one(tmp_path / "spool", decision(0), decision(1), frames=made)
    assert [row["frame"]["bytes"] for row in rows] == made
    assert [row["frame"]["path"] for row in rows] == [
        "frames/defend_the_center.rule.oracle.42106076.0_0000.png",
        "frames/defend_the_center.rule.oracle.42106076.0_0001.jpg",
    ]


def test_row_groups_are_bounded_by_bytes(tmp_path: Path) -> None:
    """100 kB frames: 4 MiB are full with the 42nd."""
    path = tmp_path / "spool"
    write_one(path, *(decision(t) for t in range(200)), frames=[bytes(100_000)] * 200)
    assert groups_of(path) == [42, 42, 42, 42, 32]
    metadata = pq.ParquetFile(path).metadata
    assert max(metadata.row_group(g).total_byte_size for g in range(5)) < (4 << 20) + 150_000


def test_row_groups_are_bounded_by_rows(tmp_path: Path) -> None:
    write_one(tmp_path / "with", *(decision(t) for t in range(300)), frames=[b"small"] * 300)
    assert groups_of(tmp_path / "with") == [128, 128, 44]
    write_one(tmp_path / "without", *(decision(t) for t in range(2_500)))
    assert groups_of(tmp_path / "without") == [1_024, 1_024, 452]


def test_long_texts_count_as_bytes_too(tmp_path: Path) -> None:
    long = Answer("attack", messages="m" * 1_000_000)
    write_one(tmp_path / "spool", *(decision(t, long) for t in range(10)))
    assert groups_of(tmp_path / "spool") == [5, 5]


def test_frames_lie_uncompressed_with_a_page_index(tmp_path: Path) -> None:
    write_one(tmp_path / "spool", decision(0), frames=[b"picture"])
    group = pq.ParquetFile(tmp_path / "spool").metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert columns["frame.bytes"].compression == "UNCOMPRESSED"
    assert {columns[name].compression for name in ("state", "messages")} == {"ZSTD"}
    assert all(column.has_offset_index for column in columns.values())


def test_a_closed_shard_is_measured_and_hashed(tmp_path: Path) -> None:
    writer = writer_at(tmp_path / "spool")
    writer.begin(KEY)
    writer.append(decision(0))
    writer.commit_episode()
    data_of = writer.close()
    data = (tmp_path / "spool").read_bytes()
    assert data_of == ShardFile("part-0000000.parquet", 1, len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("failing_rows", [1, 128, 300])
def test_a_failed_episode_leaves_no_row(tmp_path: Path, failing_rows: int) -> None:
    """Also where a part of it had gone to disk already, in a row group of its own or with a whole episode's rows."""
    writer = writer_at(tmp_path / "spool")
    for seed, rows, good in ((1, 130, True), (2, failing_rows, False), (3, 2, True)):
        writer.begin(EpisodeKey("defend_the_center", "rule", "oracle", seed, 0))
        for tick in range(rows):
            writer.append(decision(tick), b"frame")
        writer.commit_episode() if good else writer.discard_episode()
    shard = writer.close()
    assert shard is not None
    assert ticks_of(tmp_path / "spool") == [(1, tick) for tick in range(130)] + [(3, 0), (3, 1)]
    assert shard.rows == 132


@pytest.mark.parametrize("rows", [0, 3, 300])
def test_a_unit_without_a_row_has_no_shard(tmp_path: Path, rows: int) -> None:
    writer = writer_at(tmp_path / "spool")
    writer.begin(KEY)
    for tick in range(rows):
        writer.append(decision(tick), b"frame")
    writer.discard_episode()
    assert writer.close() is None
    assert list(tmp_path.iterdir()) == []


def test_episodes_do_not_overlap(tmp_path: Path) -> None:
    writer = writer_at(tmp_path / "spool")
    with pytest.raises(ValueError, match="no episode is open"):
        writer.append(decision(0))
    writer.begin(KEY)
    with pytest.raises(ValueError, match="still open"):
        writer.begin(KEY)
    with pytest.raises(ValueError, match="still open"):
        writer.close()


def test_an_interrupted_spool_is_no_shard(tmp_path: Path) -> None:
    writer = writer_at(tmp_path / "spool")
    writer.begin(KEY)
    for tick in range(200):
        writer.append(decision(tick), b"frame")
    with pytest.raises(Exception, match=r"magic bytes|too small|footer"):
        pq.ParquetFile(tmp_path / "spool")
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_full_scratch_disk_is_one_line(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.symlink_to("/dev/full")
    writer = writer_at(spool)
    writer.begin(KEY)
    with pytest.raises(StorageError, match=r"cannot write .*spool: the disk is full"):
        writer.append(decision(0), bytes(8 << 20))
    writer.abort()
    assert not spool.is_symlink()


def test_episode_rows_by_value(tmp_path: Path) -> None:
    of = Unit(4, "defend_the_center", "rule", "oracle", (PlannedEpisode(6, 0), PlannedEpisode(13, 2, tries=1)))
    good, bad = of.keys()
    final = Frame(np.zeros((1, 1, 3), np.uint8))
    records: list[Episode | EpisodeFailure] = [
        episode(good, 250, out_of_schema_by_cause={"policy_error": 2, "not_an_option": 1}, final_frame=final),
        failure(bad),
    ]
    steps = ShardFile("part-0000004.parquet", 250, 9_999, "ab" * 32)
    shard = write_episodes(tmp_path / "spool", records, steps, provenance(of), encode=lambda frame: b"png of a frame")
    first, second = pq.read_table(tmp_path / "spool").to_pylist()
    assert (shard.name, shard.rows, shard.bytes) == ("part-0000004.parquet", 2, (tmp_path / "spool").stat().st_size)
    assert first["final_frame"] == {
        "bytes": b"png of a frame",
        "path": "frames/defend_the_center.rule.oracle.6.0_0250.png",
    }
    assert first["out_of_schema_by_cause"] == [
        {"key": "not_an_option", "value": 1},
        {"key": "policy_error", "value": 2},
    ]
    assert (first["n_out_of_schema"], first["metric"], first["steps"], first["unit"]) == (3, 1.0, 250, 4)
    assert (first["status"], first["end_reason"], first["terminated"], first["tries"]) == (
        "completed",
        "death",
        True,
        0,
    )
    assert {row["steps_shard_sha256"] for row in (first, second)} == {"ab" * 32}
    assert (second["status"], second["stage"], second["cause"]) == ("failed", "environment", "the floor is lava")
    assert (second["tries"], second["episode_index"], second["seed"]) == (1, 2, 13)
    made_up = ("metric", "steps", "total_reward", "terminated", "trajectory_hash", "final_frame", "n_out_of_schema")
    assert [second[name] for name in made_up] == [None] * len(made_up)
    assert second["versions"] == [{"key": "vizdoom", "value": "1.3.1"}]


def test_records_must_be_the_planned_ones(tmp_path: Path) -> None:
    of = unit(0, (1, 2))
    one, two = of.keys()
    wrongs: list[list[Episode | EpisodeFailure]] = [
        [episode(one)],
        [episode(two), failure(one)],
        [episode(one), episode(one)],
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="not those of the planned"):
            write_episodes(tmp_path / "spool", wrong, None, provenance(of))
    assert list(tmp_path.iterdir()) == []


def test_a_commit_says_what_its_unit_is(tmp_path: Path) -> None:
    of = unit(3, (6, 13))
    good, bad = of.keys()
    steps = ShardFile("part-0000003.parquet", 3, 77, "cd" * 32)
    storage = LocalStorage(tmp_path)
    write_episodes(tmp_path / "both", [episode(good), failure(bad)], steps, provenance(of))
    commit = read_commit(storage, "both", 3)
    assert (commit.unit, commit.episodes, commit.steps) == (3, 2, steps)
    assert [(f.episode_id, f.stage) for f in commit.failures] == [("defend_the_center.rule.oracle.13.0", "environment")]
    write_episodes(tmp_path / "none", [failure(good), failure(bad)], None, provenance(of))
    assert read_commit(storage, "none", 3).steps is None


def test_a_plan_file_gives_its_units_back(tmp_path: Path) -> None:
    units = (unit(0, (4294967295, 0)), Unit(1, "health_gathering", "bare", "a b%20c", (PlannedEpisode(5, 3, tries=2),)))
    write_plan(tmp_path / "plan", units)
    assert read_plan(LocalStorage(tmp_path), "plan") == units
    assert pq.read_schema(tmp_path / "plan").equals(PLAN)


ODD_NAMES = ["org/model:8b", "a b%20c", "名前", "x=y", "../up", "n" * 300]


def test_odd_policy_names_stay_exact_and_never_reach_a_path(tmp_path: Path) -> None:
    paths = []
    for number, name in enumerate(ODD_NAMES):
        of = unit(number, (1,), policy=name)
        writer = StepWriter(tmp_path / f"{of.part}.parquet", of.part, RUN_ID, 4, OPTIONS)
        writer.begin(of.keys()[0])
        writer.append(decision(0), b"frame")
        writer.commit_episode()
        writer.close()
        paths.append(pq.read_table(tmp_path / f"{of.part}.parquet").to_pylist()[0]["frame"]["path"])
    for number, name in enumerate(ODD_NAMES):
        (row,) = pq.read_table(tmp_path, filters=[("policy", "==", name)]).to_pylist()
        assert row["episode_id"] == f"defend_the_center.rule.{slug(name)}.1.0"
        assert paths[number].count("/") == 1
        assert ".." not in paths[number]
        assert len(paths[number].removeprefix("frames/")) < 150
    assert len({path.lower() for path in paths}) == len(ODD_NAMES)


def test_reading_takes_only_what_is_asked_for(tmp_path: Path) -> None:
    write_one(tmp_path / "spool", *(decision(t) for t in range(1_500)), frames=[bytes(20)] * 1_500)
    storage = LocalStorage(tmp_path)
    assert count_rows(storage, "spool") == 1_500
    batches = list(iter_batches(storage, "spool", ["tick", "reward"], batch_rows=400))
    assert max(batch.num_rows for batch in batches) <= 400
    assert [tick for batch in batches for tick in batch["tick"].to_pylist()] == list(range(1_500))
    assert batches[0].schema.names == ["tick", "reward"]
    assert read_table(storage, "spool", ["frame.path"]).schema.names == ["frame"]
    with pytest.raises(FileNotFoundError):
        count_rows(storage, "nothing")
