"""Players without games, importable by actors: what each does with a unit is told by the unit's number."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rollouts.pools.pool import Task
from rollouts.records import Unit, UnitReport
from tests.pool_doubles import report_of

Mishap = Literal["die", "hang", "slow", "raise"]


class FakePlayer:
    """Plays at once. A mishap comes back each time, except where `spared` (a folder) remembers that it happened."""

    def __init__(self, mishaps: Mapping[int, Mishap], spared: str | None) -> None:
        self._mishaps = mishaps
        self._spared = spared
        self.decisions = 0

    def play(self, unit: Unit, attempt: str, skip: Mapping[str, str]) -> UnitReport:
        mishap = self._mishaps.get(unit.number)
        if mishap is not None and not skip and not self._is_spared(unit.number):
            self._suffer(mishap)
        self.decisions += 10
        return report_of(Task(unit, attempt, skip))

    def _is_spared(self, number: int) -> bool:
        if self._spared is None:
            return False
        try:
            with open(f"{self._spared}/{number}", "x"):
                return False
        except FileExistsError:
            return True

    def _suffer(self, mishap: Mishap) -> None:
        match mishap:
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(3600)
            case "slow":
                for _ in range(15):
                    time.sleep(0.1)
                    self.decisions += 1
            case "raise":
                raise ValueError("bad weights path X")

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class MakeFake:
    """Units in `mishaps` go wrong: once where `spared` is a folder, else always. `fault` is raised at the start."""

    mishaps: Mapping[int, Mishap] = field(default_factory=dict)
    spared: str | None = None
    fault: Exception | None = None

    def __call__(self, worker: str, node: str) -> FakePlayer:
        if self.fault is not None:
            raise self.fault
        return FakePlayer(self.mishaps, self.spared)
