"""Grades without a model where the unit was played: what a rollout worker calls before it stages a unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grading.order import GradingOrder
from rollouts.records import SideReport, Unit


@dataclass(frozen=True)
class JudgeHere:
    """For `WorkOrder.judge`: heuristic grades and their credit, from the unit's files before they leave the scratch."""

    order: GradingOrder

    def __call__(self, unit: Unit, attempt: str, steps: Path | None, episodes: Path) -> SideReport:
        """Stage grades and credit of the unit under `attempt`."""
        raise NotImplementedError
