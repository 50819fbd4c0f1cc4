"""Makes the players that pools put to work: a worker with its log, from an order that can be sent anywhere."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from rollouts.calls.limits import Limiter
from rollouts.meters import NO_METERS, Meters
from rollouts.pools.pool import Failure, Player
from rollouts.records import Unit, UnitReport
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import open_storage
from rollouts.worker import Worker, WorkOrder
from rollouts.worker_log import WorkerLog


class MakePlayer(Protocol):
    """Makes a player that calls itself `worker`, on `node`. Picklable for pools of other processes."""

    def __call__(self, worker: str, node: str) -> Player: ...


class OpenLimiter(Protocol):
    """Gives a worker the limiter of the whole run, as it is reached from there. Picklable as `MakePlayer` is."""

    def __call__(self) -> Limiter: ...


@dataclass(frozen=True)
class MakeWorker:
    """The players of a run: `order` says what to play, `out` (a path or URI) where the run folder lies, `limiter` who
    says when models may be called, where the order calls any, `meters` who watches."""

    order: WorkOrder
    out: str
    limiter: OpenLimiter | None = None
    meters: Meters = NO_METERS

    def __call__(self, worker: str, node: str) -> LoggedWorker:
        storage = open_storage(self.out)
        log = WorkerLog(storage, self.order.run_id, worker, node)
        folder = RunFolder(storage, self.order.run_id)
        limiter = self.limiter() if self.limiter and self.order.calls else None
        return LoggedWorker(Worker(self.order, folder, worker, node, log.episode, limiter, self.meters), log)

    def here(self) -> Callable[[], Player]:
        """For the pool that is this process."""
        return lambda: self("local", socket.gethostname())


class LoggedWorker:
    """A worker that writes down what it did."""

    def __init__(self, worker: Worker, log: WorkerLog) -> None:
        self._worker = worker
        self._log = log

    @property
    def decisions(self) -> int:
        return self._worker.decisions

    def play(self, unit: Unit, attempt: str, skip: Mapping[str, str]) -> UnitReport:
        try:
            report = self._worker.play(unit, attempt, skip)
        except Exception as error:
            self._log.error(unit, attempt, Failure.of(error).cause)
            raise
        self._log.unit(report)
        return report

    def close(self) -> None:
        self._worker.close()
        self._log.flush()
