"""Judges a played run in a driver that kills itself at one step of its storage; logs every question it asks."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from grading.credit import CreditSettings
from grading.order import GradingOrder
from grading.owed import find_owed
from grading.work import GradingWorker, declare
from rollouts.calls.chat_records import ChatRequest
from rollouts.evidence.committed_run import CommittedRun
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.store.storage import LocalStorage, Storage
from tests.judged_runs import GRADER, RUN_ID, SUMMARIZER, Desk, Model, make_order, wait_for
from tests.shard_doubles import StepStorage

LOG = "asked"


def order_at(root: Path) -> GradingOrder:
    return make_order(root, grader=GRADER, summarizer=SUMMARIZER, credit=CreditSettings())


def asked(root: Path) -> list[str]:
    """The keys of all questions, in the order in which they were asked."""
    log = root / LOG
    return log.read_text().splitlines() if log.exists() else []


def judge_all(storage: Storage, root: Path) -> None:
    """Do what is owed, as a driver and its workers do."""

    def write_down(request: ChatRequest) -> None:
        with (root / LOG).open("a") as log:
            log.write(f"{request.key()}\n")

    desk = Desk.at(CommittedRun.open(RunFolder(storage, RUN_ID)))
    order, model = order_at(root), Model(on_request=write_down)
    declare(desk.side, desk.lease, order)
    worker = GradingWorker(order, desk.run.folder)
    owed = find_owed(desk.run.folder, order, desk.units)
    for unit in owed.summaries:
        desk.commit(wait_for(worker.summarize_unit(unit, desk.attempt(), model)))
    for unit in owed.grades:
        desk.commit(wait_for(worker.grade_unit(unit, desk.attempt(), model)))
    for unit in owed.credit:
        desk.commit(worker.credit_unit(unit, desk.attempt()))
    desk.leave()


def judge_until(root: Path, fatal_step: int) -> None:
    """A driver that dies at one step."""
    count, lock = 0, threading.Lock()

    def die(_step: int, _name: str) -> None:
        nonlocal count
        with lock:
            count += 1
            if count > fatal_step:
                os.kill(os.getpid(), signal.SIGKILL)

    judge_all(StepStorage(root, die), root)


def count_steps(root: Path) -> int:
    """How many steps there are to die at."""
    count, lock = 0, threading.Lock()

    def add(_step: int, _name: str) -> None:
        nonlocal count
        with lock:
            count += 1

    judge_all(StepStorage(root, add), root)
    return count


def judge_until_each(parent: str, steps: list[int]) -> None:
    """A killed driver for each step, each in the run below `<parent>/<step>`; fails unless all were killed."""
    for step in steps:
        if (pid := os.fork()) == 0:
            judge_until(Path(parent) / str(step), step)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGKILL:
            raise AssertionError(f"step {step} was never reached")


def stored(root: Path) -> set[str]:
    """The keys of the validated replies that a dead driver has left, in shards or one by one."""
    side = SideFolder(RunFolder(LocalStorage(root), RUN_ID))
    units = CommittedRun.open(side.folder).units()
    rows: list[dict[str, Any]] = []
    for unit in units:
        for who in side.ids("calls"):
            rows += side.rows("calls", who, unit) + side.journal.read(who, unit)
    return {row["request_sha256"] for row in rows if row["validated"]}
