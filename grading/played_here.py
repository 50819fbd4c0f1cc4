"""Grades without a model where the unit was played: what a rollout worker calls before it stages a unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grading.order import GradingOrder
from grading.work import GradingWorker
from rollouts.errors import UsageError
from rollouts.records import SideReport, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import open_storage


@dataclass(frozen=True)
class JudgeHere:
    """For `WorkOrder.judge`: heuristic grades and their credit, from the unit's files before they leave the scratch.

    Picklable. `open` makes the judge of one worker.
    """

    order: GradingOrder

    def __post_init__(self) -> None:
        if self.order.source != "heuristic":
            raise UsageError(f"{self.order.source} grades are not made where an episode was played, heuristic ones are")

    def open(self, folder: RunFolder) -> UnitJudge:
        return UnitJudge(GradingWorker(self.order, folder))


class UnitJudge:
    """Judges the units of one worker, one at a time."""

    def __init__(self, worker: GradingWorker) -> None:
        self._worker = worker

    def judge(self, unit: Unit, attempt: str, steps: Path, episodes: Path) -> SideReport:
        """Stage grades and credit of a unit whose shards are still local; there is no file `steps` without a decision.

        Errors: `StorageError`.
        """
        storage = open_storage(episodes.parent)
        return self._worker.judge_files(
            unit, attempt, lambda reader: reader.read_files(unit, storage, episodes.name, steps.name, texts=False)
        )
