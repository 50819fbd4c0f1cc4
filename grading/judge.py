"""A grading worker as a player of lanes: which of its tables it works on is its stage."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from grading.client import open_call
from grading.order import GradingOrder
from grading.work import GradingWorker
from rollouts.calls.limits import Limiter
from rollouts.pools.pool import Failure
from rollouts.records import SideReport, Unit
from rollouts.store.storage import open_storage
from rollouts.worker_log import WorkerLog

if TYPE_CHECKING:
    from rollouts.calls.chat import ChatClient

Stage = Literal["summaries", "grades", "credit"]
STAGES: tuple[Stage, ...] = ("summaries", "grades", "credit")


def asks_models(order: GradingOrder, stage: Stage) -> bool:
    """Whether the stage calls a model: a heuristic grade and credit do not."""
    return stage == "summaries" or (stage == "grades" and order.source == "llm")


@dataclass(frozen=True)
class MakeJudge:
    """Judges of one stage of `order`; picklable."""

    order: GradingOrder
    stage: Stage

    def __call__(self, worker: str, limiter: Limiter | None) -> Judge:
        """Errors: `UsageError` (no endpoint, no key), `StorageError`."""
        call = None
        if asks_models(self.order, self.stage):
            assert limiter is not None, "models are called through a limiter"
            call = open_call(self.order, limiter, worker)
        log = WorkerLog(open_storage(self.order.out), self.order.run_id, worker, socket.gethostname())
        return Judge(GradingWorker(self.order), self.stage, call, log)


class Judge:
    """Does one stage for one unit after the other, and for many at once, and writes down what it did."""

    def __init__(self, worker: GradingWorker, stage: Stage, call: ChatClient | None, log: WorkerLog) -> None:
        self._worker = worker
        self._stage = stage
        self._call = call
        self._log = log

    async def play(self, unit: Unit, attempt: str) -> SideReport:
        try:
            report = await self._judge(unit, attempt)
        except Exception as error:
            await asyncio.to_thread(self._log.error, unit, attempt, Failure.of(error).cause)
            raise
        await asyncio.to_thread(self._log.judged, self._stage, unit, report)
        return report

    async def _judge(self, unit: Unit, attempt: str) -> SideReport:
        if self._stage == "credit":
            return await asyncio.to_thread(self._worker.credit_unit, unit, attempt)
        if self._stage == "grades":
            return await self._worker.grade_unit(unit, attempt, self._call)
        assert self._call is not None
        return await self._worker.summarize_unit(unit, attempt, self._call)

    async def close(self) -> None:
        if self._call is not None:
            await self._call.close()
        await asyncio.to_thread(self._log.flush)
