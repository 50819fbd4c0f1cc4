"""Judges without models, for the tests of lanes and pipelines; importable by actors."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rollouts.calls.limits import Limiter, Order, Outcome
from rollouts.errors import BudgetSpent, TryVoid
from rollouts.pools.pool import Report
from rollouts.records import SideCounts, SideReport, Unit

Mishap = Literal["die", "stop", "raise", "void", "budget"]


def side_report(unit: Unit, attempt: str, stop: tuple[Literal["budget", "stopped"], str] | None = None) -> SideReport:
    """One graded episode; with a `stop`, only a part of the unit."""
    nothing_failed = tuple(None for _ in unit.episodes)
    return SideReport(unit.number, attempt, (), nothing_failed, SideCounts(graded=1), complete=stop is None, stop=stop)


class FakeJudge:
    """Each task takes `seconds` and, with a limiter, a turn. Units in `mishaps` go wrong, once where `spared` is a
    folder, else always."""

    def __init__(
        self,
        seconds: float = 0.0,
        mishaps: Mapping[int, Mishap] | None = None,
        spared: str | None = None,
        limiter: Limiter | None = None,
        holder: str = "",
    ) -> None:
        self._seconds = seconds
        self._mishaps = mishaps or {}
        self._spared = spared
        self._limiter = limiter
        self._holder = holder
        self.closed = False
        self.under_way = self.most = 0

    async def play(self, unit: Unit, attempt: str) -> SideReport:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            permit = await self._limiter.acquire(Order("lane", holder=self._holder)) if self._limiter else None
            if stopped := self._suffer(unit):
                return side_report(unit, attempt, stopped)
            await asyncio.sleep(self._seconds)
            if self._limiter and permit:
                await self._limiter.settle(permit, Outcome("answered"))
        except BudgetSpent as error:
            return side_report(unit, attempt, ("budget", str(error)))
        finally:
            self.under_way -= 1
        return side_report(unit, attempt)

    async def close(self) -> None:
        assert not self.closed
        self.closed = True

    def _suffer(self, unit: Unit) -> tuple[Literal["budget", "stopped"], str] | None:
        match self._mishap(unit):
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "raise":
                raise ValueError("bad weights path X")
            case "void":
                raise TryVoid("the shards are not there")
            case "budget":
                return "budget", "the budget of 3 calls is used up"
        return None

    def _mishap(self, unit: Unit) -> Mishap | None:
        mishap = self._mishaps.get(unit.number)
        if mishap is None or self._spared is None:
            return mishap
        try:
            with open(f"{self._spared}/{unit.number}", "x"):
                return mishap
        except FileExistsError:
            return None


@dataclass(frozen=True)
class MakeFakeJudge:
    """Makes judges in actors."""

    seconds: float = 0.0
    mishaps: Mapping[int, Mishap] = field(default_factory=dict)
    spared: str | None = None
    fault: Exception | None = None

    def __call__(self, worker: str, limiter: Limiter | None) -> FakeJudge:
        if self.fault is not None:
            raise self.fault
        return FakeJudge(self.seconds, self.mishaps, self.spared, limiter, worker)


class SideCommitsDouble:
    """Keeps who was promoted; `before` is called first, and may raise."""

    def __init__(self, before: Callable[[Report], None] = lambda _report: None) -> None:
        self.promoted: list[Report] = []
        self._before = before
        self._lock = threading.Lock()
        self._given = 0

    def next_attempt(self) -> str:
        with self._lock:
            self._given += 1
            return f"e1-{self._given}"

    def promote(self, report: Report) -> bool:
        self._before(report)
        with self._lock:
            self.promoted.append(report)
        return True

    def heartbeat(self) -> None:
        pass

    def units(self) -> list[int]:
        return sorted(report.unit for report in self.promoted)
