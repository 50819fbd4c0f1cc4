from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from rollouts.calls.limits import Spending
from rollouts.errors import LeaseError, TryVoid
from rollouts.records import SideReport, SideShard, Unit
from rollouts.run.feedback_table import FeedbackTable
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_tables import part_name
from rollouts.shards.side_rows import episode_columns, write_side
from rollouts.store.storage import LocalStorage
from tests.shard_doubles import PLAN, RUN_ID, files_below, stage, start

ID = "judge-1"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
UNIT = PLAN[0]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(LocalStorage(tmp_path), RUN_ID)


@pytest.fixture
def lease(folder: RunFolder) -> Lease:
    lease = start(folder)
    folder.promote(lease, stage(folder, UNIT, lease.next_attempt()))
    return lease


@pytest.fixture
def side(folder: RunFolder) -> SideFolder:
    return SideFolder(folder)


def row(seed: int, unit: Unit = UNIT, **columns: Any) -> dict[str, Any]:
    key = next(key for key in unit.keys() if key.seed == seed)  # noqa: SIM118
    return {**episode_columns(RUN_ID, key), "unit": unit.number, **columns}


def grade(seed: int, **columns: Any) -> dict[str, Any]:
    return row(seed, **{"grading": 0, "repeat": 0, "status": "graded", "call_id": f"c{seed}", **columns})


def call(seed: int, name: str | None = None, **columns: Any) -> dict[str, Any]:
    return row(seed, **{"call_id": name or f"c{seed}", "tries": 2, "tokens_in": 10, "tokens_out": 1, **columns})


def staged(
    side: SideFolder, attempt: str, tables: Sequence[tuple[str, Sequence[dict[str, Any]]]], k: int = 0
) -> SideReport:
    shards: list[SideShard] = []
    with tempfile.TemporaryDirectory() as scratch:
        for table, rows in tables:
            file = write_side(Path(scratch) / table, table, rows, part_name(UNIT.number, k))
            side.stage(UNIT, attempt, table, ID, Path(scratch) / table)
            shards.append(SideShard(table, ID, file))
    return SideReport(UNIT.number, attempt, tuple(shards), ())


def test_what_is_promoted_lies_under_table_and_id(side: SideFolder, lease: Lease, tmp_path: Path) -> None:
    report = staged(side, lease.next_attempt(), [("calls", [call(1)]), ("grades", [grade(1), grade(2)])])
    assert side.promote(lease, report)
    assert [r["episode_id"] for r in side.rows("grades", ID, UNIT)] == [grade(1)["episode_id"], grade(2)["episode_id"]]
    assert side.tables() == (("grades", ID), ("calls", ID))
    (shard,) = side.shards("grades", ID)
    assert (shard.name, shard.rows) == ("part-0000000-0.parquet", 2)
    assert shard == report.shards[1].file
    assert [name for name in files_below(tmp_path / RUN_ID) if name.startswith(".staging")] == []


def test_how_many_gradings_were_asked_for_is_no_file_of_the_dataset(
    side: SideFolder, lease: Lease, tmp_path: Path
) -> None:
    side.promote(lease, staged(side, lease.next_attempt(), [("grades", [grade(1)])]))
    side.ask(lease, ID, 3)
    grades = tmp_path / RUN_ID / "grades" / ID
    assert ds.dataset(grades).count_rows() == 1
    assert side.asked(ID) == 3
    (grades / "_asked.json").rename(grades / "asked.json")
    assert (side.asked(ID), side.asked("another")) == (3, 1)


def test_nothing_staged_is_nothing_promoted(side: SideFolder, lease: Lease) -> None:
    assert not side.promote(lease, SideReport(0, lease.next_attempt(), (), ()))


def test_a_unit_gets_further_parts(side: SideFolder, lease: Lease) -> None:
    for k in range(3):
        side.promote(lease, staged(side, lease.next_attempt(), [("grades", [grade(1, grading=k)])], k))
    names = [Path(path).name for path in side.parts("grades", ID, UNIT)]
    assert names == ["part-0000000-0.parquet", "part-0000000-1.parquet", "part-0000000-2.parquet"]
    assert side.keys("grades", ID, ("grading",)) == {0: [{"grading": 0}, {"grading": 1}, {"grading": 2}]}


def test_a_report_made_for_a_part_that_is_there_by_now_commits_nothing_of_itself(
    side: SideFolder, lease: Lease
) -> None:
    first, second = (staged(side, lease.next_attempt(), [("grades", [grade(1)])]) for _ in range(2))
    late = staged(side, lease.next_attempt(), [("calls", [call(1)]), ("grades", [grade(1)])])
    side.promote(lease, first)
    for report in (second, late):
        with pytest.raises(TryVoid, match="has come in since"):
            side.promote(lease, report)
    assert len(side.rows("grades", ID, UNIT)) == 1
    assert side.rows("calls", ID, UNIT) == []


def test_calls_take_whatever_number_is_free(side: SideFolder, lease: Lease) -> None:
    for name in ("a", "b"):
        side.promote(lease, staged(side, lease.next_attempt(), [("calls", [call(1, name)])]))
    assert [r["call_id"] for r in side.rows("calls", ID, UNIT)] == ["a", "b"]
    assert side.spent() == Spending(calls=4, tokens=22)


def test_what_calls_have_spent_is_what_they_counted_and_not_what_the_endpoint_happened_to_say(
    side: SideFolder, lease: Lease
) -> None:
    """One that was told, one whose first try was lost, one that nobody waited for, one from before this was kept."""
    counted = {"tries": 1, "tokens_in": 10, "tokens_out": 1, "cost_usd": 0.5, "budget_tokens": 11, "budget_usd": 0.5}
    lost = {**counted, "tries": 2, "budget_tokens": 111, "budget_usd": 1.5}
    abandoned = {"tries": 1, "budget_tokens": 100, "budget_usd": 1.0, "tokens_in": None, "tokens_out": None}
    before = {"tries": 1, "tokens_in": 3, "tokens_out": 4, "cost_usd": 0.25}
    rows = [
        call(1, str(n)) | columns for n, columns in enumerate((counted, lost, {**abandoned, "cost_usd": None}, before))
    ]
    side.promote(lease, staged(side, lease.next_attempt(), [("calls", rows)]))
    assert side.spent() == Spending(5, 11 + 111 + 100 + 7, 0.5 + 1.5 + 1.0 + 0.25)


def test_an_attempt_of_another_drivers_time_counts_for_nothing(side: SideFolder, lease: Lease) -> None:
    with pytest.raises(TryVoid, match="another driver's time"):
        side.promote(lease, staged(side, "e0-dead-7", [("grades", [grade(1)])]))


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_staged_file_that_is_not_whole_counts_for_nothing(side: SideFolder, lease: Lease, damage: str) -> None:
    report = staged(side, lease.next_attempt(), [("calls", [call(1)]), ("grades", [grade(1)])])
    shard = replace(report.shards[1], file=replace(report.shards[1].file, bytes=1))
    bad = replace(report, shards=(report.shards[0], shard))
    if damage == "missing":
        bad = replace(report, attempt=lease.next_attempt())
    with pytest.raises(TryVoid, match=r"are missing|have .* bytes, not 1"):
        side.promote(lease, bad)
    assert side.tables() == ()


def test_who_lost_the_lease_commits_nothing(side: SideFolder, lease: Lease, folder: RunFolder) -> None:
    report = staged(side, lease.next_attempt(), [("grades", [grade(1)])])
    lease.release()
    folder.acquire()
    with pytest.raises(LeaseError):
        side.promote(lease, report)
    with pytest.raises(LeaseError):
        side.declare(lease, "grades", ID, {})
    assert side.tables() == ()


def test_a_torn_part_is_set_aside_and_an_empty_one_keeps_its_place(
    side: SideFolder, lease: Lease, tmp_path: Path
) -> None:
    for k in range(2):
        side.promote(lease, staged(side, lease.next_attempt(), [("grades", [grade(1, grading=k)])], k))
    torn = tmp_path / RUN_ID / "grades" / ID / "part-0000000-0.parquet"
    torn.write_bytes(torn.read_bytes()[:100])
    (torn.parent / ".part-0000000-2.parquet.tmp-0123abcd").write_bytes(b"half")
    side.recover(lease, side.folder.survey().committed)
    assert [r["grading"] for r in side.rows("grades", ID, UNIT)] == [1]
    assert len(side.parts("grades", ID, UNIT)) == 2
    kept = [name for name in files_below(tmp_path / RUN_ID) if name.startswith((".staging/torn/", "grades/"))]
    assert [name.rpartition("-")[0] for name in kept] == [
        ".staging/torn/grades-judge-1-part-0000000-0.parquet",
        "grades/judge-1/part-0000000",
        "grades/judge-1/part-0000000",
    ]


def test_a_missing_part_is_replaced_by_an_empty_one(side: SideFolder, lease: Lease, tmp_path: Path) -> None:
    for k in range(2):
        side.promote(lease, staged(side, lease.next_attempt(), [("grades", [grade(1, grading=k)])], k))
    (tmp_path / RUN_ID / "grades" / ID / "part-0000000-0.parquet").unlink()
    side.recover(lease, side.folder.survey().committed)
    assert [r["grading"] for r in side.rows("grades", ID, UNIT)] == [1]


def test_replies_on_file_are_gathered_once(side: SideFolder, lease: Lease, tmp_path: Path) -> None:
    side.promote(lease, staged(side, lease.next_attempt(), [("calls", [call(1, "a")])]))
    for name in ("a", "b"):
        side.journal.write(ID, UNIT, call(1, name, ended_at=NOON, content="\ud83d 大", detail=None))
    assert [r["ended_at"] for r in side.journal.read(ID, UNIT)] == [NOON, NOON]
    side.recover(lease, side.folder.survey().committed)
    side.gather(lease)
    rows = side.rows("calls", ID, UNIT)
    assert [(r["call_id"], r["content"]) for r in rows] == [("a", None), ("b", "\ufffd 大")]
    assert not (tmp_path / RUN_ID / ".calls").exists()


def test_a_promotion_forgets_the_replies_that_its_shard_has_and_no_other(side: SideFolder, lease: Lease) -> None:
    for name in ("a", "b"):
        side.journal.write(ID, UNIT, call(1, name))
    side.promote(lease, staged(side, lease.next_attempt(), [("calls", [call(1, "a")])]))
    assert [r["call_id"] for r in side.journal.read(ID, UNIT)] == ["b"]


def test_temporary_files_lie_where_a_sweep_finds_them(
    folder: RunFolder, side: SideFolder, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a lock is removed after its owner was killed."""
    locked, put = [], LocalStorage.put_file

    def looking(storage: LocalStorage, local: Path, path: str) -> None:
        locked.append((local.parent, (local.parent / "lock").exists()))
        put(storage, local, path)

    monkeypatch.setattr(LocalStorage, "put_file", looking)
    side.journal.write(ID, UNIT, call(1, "a"))
    side.gather(lease)
    said = {"channel": "explicit", "polarity": "positive", "magnitude": 1.0, "text": "", "time": NOON}
    (key,) = [key for key in UNIT.keys() if key.seed == 1]  # noqa: SIM118
    FeedbackTable(folder).add(lease, [{**episode_columns(RUN_ID, key), **said}])
    assert [held for _, held in locked] == [True, True]
    assert [path for path, _ in locked if path.exists()] == []


def test_feedback_is_stored_once(folder: RunFolder, lease: Lease) -> None:
    said = {"channel": "explicit", "polarity": "positive", "magnitude": 1.0, "text": "好", "time": NOON}
    first, second = ({key: value for key, value in {**row(seed), **said}.items() if key != "unit"} for seed in (1, 2))
    table = FeedbackTable(folder)
    assert [table.add(lease, rows) for rows in ([first, first], [first, second], [second])] == [1, 1, 0]
    assert [r["seed"] for r in table.read()] == [1, 2]
    assert [shard.name for shard in table.shards()] == ["part-0000000.parquet", "part-0000001.parquet"]
