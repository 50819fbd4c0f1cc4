"""A driver that judges, killed at any step and started again: as if nothing had happened, and nothing paid twice."""

from __future__ import annotations

import multiprocessing
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.side_tables import wrong_sides
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_survey import survey_sides
from rollouts.shards.side_schemas import SIDE_EXEMPT
from rollouts.store.storage import LocalStorage
from tests.judged_runs import RUN_ID, played_run
from tests.side_killing import asked, count_steps, judge_all, judge_until_each, order_at, stored

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.side_killing"])
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("played")
    played_run(root, seeds=SEEDS)
    return root


def judged_rows(root: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of the side tables that may not differ, in the order of the shards."""
    run, order = CommittedRun.open(RunFolder(LocalStorage(root), RUN_ID)), order_at(root)
    side, ids = SideFolder(run.folder), {"grades": order.grader_id, "summaries": order.summarizer_id}
    found: dict[str, list[dict[str, Any]]] = {}
    for table, id in {**ids, "credit": order.credit_id}.items():
        rows = [row for unit in run.units() for row in side.rows(table, str(id), unit)]
        found[table] = [{k: v for k, v in row.items() if k not in SIDE_EXEMPT[table]} for row in rows]
    return found


def paid(root: Path) -> Counter[str]:
    """How often each question was asked and its reply put into a shard."""
    side = SideFolder(RunFolder(LocalStorage(root), RUN_ID))
    run = CommittedRun.open(side.folder)
    rows = [row for unit in run.units() for who in side.ids("calls") for row in side.rows("calls", who, unit)]
    assert len({row["call_id"] for row in rows}) == len(rows)
    return Counter(row["request_sha256"] for row in rows if not row["reused_call_id"])


def faults(root: Path) -> list[str]:
    run = CommittedRun.open(RunFolder(LocalStorage(root), RUN_ID))
    order = {1: 5, 2: 6, 3: 7}
    steps = {u.number: {f"judged.rule.oracle.{e.seed}.0": order[e.seed] for e in u.episodes} for u in run.units()}
    left = [path for name in (".calls", ".staging") for path in (root / RUN_ID / name).rglob("*") if path.is_file()]
    return [*wrong_sides(run, steps, survey_sides(run.folder, run.folder.survey().committed)), *map(str, left)]


def check_kills(tmp_path: Path, played: Path, undisturbed: Path, steps: list[int]) -> None:
    for step in steps:
        shutil.copytree(played, tmp_path / str(step))
    process = PROCESSES.Process(target=judge_until_each, args=(str(tmp_path), steps))
    process.start()
    process.join(240)
    assert process.exitcode == 0
    wanted = judged_rows(undisturbed)
    for step in steps:
        root = tmp_path / str(step)
        before, on_file = len(asked(root)), stored(root)
        judge_all(LocalStorage(root), root)
        assert judged_rows(root) == wanted, step
        assert faults(root) == [], step
        assert on_file.isdisjoint(asked(root)[before:]), step
        assert paid(root) <= Counter(asked(root)), step
        assert set(paid(root)) == set(paid(undisturbed)), step


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, played: Path) -> tuple[Path, int]:
    root = tmp_path_factory.mktemp("calm") / "run"
    shutil.copytree(played, root)
    return root, count_steps(root)


def test_a_calm_driver_asks_everything_once(undisturbed: tuple[Path, int]) -> None:
    root, _ = undisturbed
    assert (len(asked(root)), faults(root)) == (6, [])
    assert paid(root) == Counter(asked(root))
    assert {table: len(rows) for table, rows in judged_rows(root).items()} == {
        "grades": 3,
        "summaries": 3,
        "credit": 5 + 6 + 7,
    }


@pytest.mark.slow
def test_killed_at_some_steps(tmp_path: Path, played: Path, undisturbed: tuple[Path, int]) -> None:
    root, count = undisturbed
    check_kills(tmp_path, played, root, list(range(3, count, count // 3)))


@pytest.mark.slow
def test_killed_at_every_second_step(tmp_path: Path, played: Path, undisturbed: tuple[Path, int]) -> None:
    root, count = undisturbed
    check_kills(tmp_path, played, root, list(range(0, count, 2)))
