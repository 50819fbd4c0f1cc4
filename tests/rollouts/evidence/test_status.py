"""How far a run is, by its folder alone."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grading.evidence import SECTION, grading_section
from grading.grade import Weights
from rollouts.cli import main
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import write_evidence
from rollouts.evidence.status import read_status, status_lines
from rollouts.records import PlannedEpisode, Unit
from rollouts.run.call_journal import CallJournal
from rollouts.run.lease import Holder, read_holder, write_holder
from rollouts.run.run_folder import RunFolder
from tests.exported_runs import FAILED, GRADER, make, played
from tests.side_doubles import commit_rows, grade

NOW = 2_000_000_000.0
ELSEWHERE = Holder(3, "token", "node-7", "another boot", 4321, NOW - 900, NOW - 4)


@pytest.fixture
def known(tmp_path: Path) -> CommittedRun:
    return make(tmp_path / "runs")


def ended(folder: RunFolder, state: str, cause: str | None = None) -> None:
    outcome = {"outcome": {"state": state, "cause": cause}}
    folder.storage.write_bytes(folder.path("manifest.json"), json.dumps(outcome).encode())


def owe(folder: RunFolder) -> None:
    """Two more episodes in a unit of their own, which nobody has played."""
    number = len(folder.read_plan())
    lease = folder.acquire()
    more = Unit(number, "counting", "rule", "half", (PlannedEpisode(8, 0), PlannedEpisode(9, 0)))
    folder.grow(lease, folder.read_record(), [more])
    folder.finish(lease)


def test_of_an_episodes_rows_the_last_one_counts(known: CommittedRun) -> None:
    ended(known.folder, "complete")
    status = read_status(known.folder)
    assert (status.state, status.owed, status.failures) == ("complete", 0, {})
    assert status.as_dict()["episodes"] == {"planned": 3, "completed": 3, "failed": 0, "owed": 0}
    assert status.as_dict()["units"] == {"planned": 4, "committed": 4}


def test_what_failed_and_what_is_owed_is_told_with_its_cause(tmp_path: Path) -> None:
    run = make(tmp_path, units=({1: played(1, "d")}, {3: FAILED}, {4: FAILED}))
    owe(run.folder)
    ended(run.folder, "stopped", "3 episodes failed")
    status = read_status(run.folder)
    assert (status.state, status.cause, status.owed) == ("stopped", "3 episodes failed", 2)
    assert status.failures == {("engine", "the engine died (signal 9)"): 2}
    assert status_lines(status) == [
        f"{tmp_path}/known: stopped (3 episodes failed)",
        "episodes: 1 of 5 completed, 2 failed, 2 owed; 3 of 4 units committed",
        "  counting rule half: 1 of 5 completed, 2 failed, 2 owed",
        "failed at stage engine: the engine died (signal 9) (2)",
    ]


@pytest.mark.parametrize("manifest", [None, b"{", b"[]", b'{"outcome": {"state": "complete"}}'])
def test_a_run_that_owes_episodes_is_not_complete_whatever_an_older_manifest_says(
    known: CommittedRun, manifest: bytes | None
) -> None:
    owe(known.folder)
    if manifest is not None:
        known.folder.storage.write_bytes(known.folder.path("manifest.json"), manifest)
    assert read_status(known.folder).state == "interrupted"


def test_a_driver_of_this_machine_lives_as_long_as_its_process(known: CommittedRun) -> None:
    lease = known.folder.acquire()
    status = read_status(known.folder)
    assert status.driver is not None
    assert (status.state, status.driver.pid, status.driver.lives(status.now)) == ("running", os.getpid(), True)
    path = known.folder.path("lease.json")
    mine = read_holder(known.folder.storage, path)
    assert mine is not None
    write_holder(known.folder.storage, path, replace(mine, process_started=mine.process_started - 100))
    assert read_status(known.folder).state == "interrupted", "another process has that id now"
    write_holder(known.folder.storage, path, mine)
    lease.release()
    assert read_status(known.folder).state == "interrupted", "there is no manifest yet"


def test_a_driver_of_another_machine_lives_while_its_heartbeat_is_young(known: CommittedRun) -> None:
    path = known.folder.path("lease.json")
    write_holder(known.folder.storage, path, ELSEWHERE)
    status = read_status(known.folder, NOW)
    assert "driver: process 4321 on node-7, last heard of 4 s ago" in status_lines(status)
    assert status.as_dict()["driver"] == {"pid": 4321, "host": "node-7", "heartbeat_age_s": 4.0, "lives": True}
    assert read_status(known.folder, NOW + 60).state == "interrupted"
    write_holder(known.folder.storage, path, replace(ELSEWHERE, released=True))
    assert read_status(known.folder, NOW).state == "interrupted"


def test_the_command_tells_grades_too(known: CommittedRun, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [grade(known, 1, "heuristic", (1, 1, 1)), grade(known, 2, "heuristic", None, cause="no_baseline")]
    commit_rows(known, "grades", GRADER, {"kind": "heuristic"}, rows)
    where = str(known.folder.describe())
    assert main(["status", where]) == 0
    assert "heuristic grades (formula-00000001): graded 1 of 3" in capsys.readouterr().out
    assert main(["status", where, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["run_id"], told["episodes"]["completed"]) == ("known", 3)
    assert [(grader["graded"], grader["of"]) for grader in told["grading"]["graders"]] == [(1, 3)]


def test_where_there_is_no_run_one_line_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(tmp_path / "gone")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"rollouts: there is no run in {tmp_path}/gone"


def test_reading_it_changes_nothing(known: CommittedRun, tmp_path: Path) -> None:
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    time.sleep(0.01)
    read_status(known.folder)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files


def finished(known: CommittedRun) -> None:
    """With the evidence of all that is there, as a run ends."""
    rows = [grade(known, seed, "heuristic", (1, 1, 1)) for seed in (1, 2, 3)]
    commit_rows(known, "grades", GRADER, {"kind": "heuristic"}, rows)
    ended = {"outcome": lambda _: {"state": "complete", "cause": None}, SECTION: grading_section(Weights())}
    write_evidence(CommittedRun.open(known.folder), ended)


def told(known: CommittedRun, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Without the age of the heartbeat."""
    capsys.readouterr()
    assert main(["status", str(known.folder.describe()), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    del found["driver"]["heartbeat_age_s"]
    return found


def test_of_a_finished_run_no_shard_is_read_and_the_same_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = make(tmp_path, units=({1: played(1, "d"), 2: played(2, "s")}, {3: played(3, "d")}, {4: FAILED}))
    finished(known)
    assert read_status(known.folder).run is None
    by_manifest = told(known, capsys)
    path = known.folder.storage.local_path(known.path("episodes", "part-0000000.parquet"))
    whole = path.read_bytes()
    path.write_bytes(b"?" * len(whole))
    assert told(known, capsys) == by_manifest, "as many bytes: nobody looked at them"
    path.write_bytes(whole)
    known.folder.storage.write_bytes(known.path("steps", "part-0000009.parquet"), b"more")
    assert read_status(known.folder).run is not None
    assert told(known, capsys) == by_manifest


@pytest.mark.parametrize("what", ["cut", "grown", "graded"])
def test_a_manifest_of_before_the_last_change_does_not_count(known: CommittedRun, what: str) -> None:
    finished(known)
    assert read_status(known.folder).run is None
    if what == "cut":
        known.folder.storage.write_bytes(known.path("episodes", "part-0000000.parquet"), b"PAR1")
    elif what == "grown":
        owe(known.folder)
    else:
        commit_rows(known, "grades", "other-00000001", {"kind": "heuristic"}, [grade(known, 1, "heuristic", (0, 0, 0))])
    status = read_status(known.folder)
    assert status.run is not None
    assert status.as_dict()["units"]["committed"] == (3 if what == "cut" else 4)


def test_a_driver_that_went_without_giving_the_run_back_is_told_as_gone(known: CommittedRun) -> None:
    write_holder(known.folder.storage, known.folder.path("lease.json"), ELSEWHERE)
    lines = status_lines(read_status(known.folder, NOW + 900))
    assert "driver: process 4321 on node-7, last heard of 904 s ago: it is gone" in lines


def test_the_last_lines_of_the_logs_are_told(known: CommittedRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest of all files, whatever lies before their ends; one that is just being written may be cut."""
    for number in range(3):
        lines = [
            f'{{"at": "2026-01-01T00:{n:02}:{number:02}", "actor": "a{number}", "event": "e", "n": {n}}}'
            for n in range(60)
        ]
        text = "\n".join([*lines, '{"at": "2026-01'])
        known.folder.storage.write_bytes(known.path("logs", f"a{number}.jsonl"), text.encode())
    known.folder.storage.write_bytes(known.path("logs", "notes.txt"), b"none")
    found = told(known, capsys)["last_lines"]
    assert [(line["n"], line["actor"]) for line in found] == [
        (58, "a1"),
        (58, "a2"),
        *((59, f"a{n}") for n in range(3)),
    ]
    main(["status", str(known.folder.describe())])
    assert capsys.readouterr().out.splitlines()[-1] == "  2026-01-01T00:59:02 a2 e n=59"


def test_calls_that_no_shard_has_yet_are_counted(known: CommittedRun, capsys: pytest.CaptureFixture[str]) -> None:
    for call in ("c1", "c2"):
        CallJournal(known.folder).write("judge", known.plan[0], {"call_id": call, "status": "abandoned"})
    assert told(known, capsys)["calls_under_way"] == 2
    main(["status", str(known.folder.describe())])
    assert "2 calls to models under way or not summed up yet" in capsys.readouterr().out
