"""A grade as a record, and what is computed from it on read: R_human, and whether label and axes agree.

The axes are stored, never R alone: other weights need no new call. Ungraded is a status of its own, without a score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from grading.judged import JudgedCall
from grading.replies import Label
from grading.task_summary import Cuts
from rollouts.calls.replies import Cause
from rollouts.errors import UsageError
from rollouts.prompt_files import PromptRef

Source = Literal["llm", "explicit", "heuristic"]
Status = Literal["graded", "ungraded"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What each axis counts in R_human: at least 0 each, 1 together, else `UsageError`."""

    goal: float = 0.45
    process: float = 0.30
    satisfaction: float = 0.25

    def __post_init__(self) -> None:
        values = (self.goal, self.process, self.satisfaction)
        if not all(math.isfinite(w) and w >= 0 for w in values) or abs(math.fsum(values) - 1) > 1e-9:
            told = ", ".join(f"{w:g}" for w in values)
            raise UsageError(f"weights ({told}) must each be at least 0 and sum to 1, as goal,process,satisfaction")


def parse_weights(text: str) -> Weights:
    """`goal,process,satisfaction`, such as `0.45,0.30,0.25`; raises `UsageError`."""
    try:
        goal, process, satisfaction = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"weights {text!r} must be three numbers: goal,process,satisfaction") from None
    return Weights(goal, process, satisfaction)


@dataclass(frozen=True, slots=True)
class Grade:
    """One grading of one episode. Axes are in [-1, 1]; None is absent, never 0.

    `source` says who judged; values of different sources are never pooled. An ungraded one has a `cause` (and a
    one-line `detail`) and no axes. `calls` are the questions asked for it, in order: the last one counts.
    """

    source: Source
    status: Status
    goal_achievement: float | None = None
    process_quality: float | None = None
    user_satisfaction: float | None = None
    label: Label | None = None
    reason: str | None = None
    cause: Cause | None = None
    detail: str | None = None
    flags: tuple[str, ...] = ()
    cuts: Cuts = field(default_factory=Cuts)
    prompt: PromptRef | None = None
    model: str | None = None
    calls: tuple[JudgedCall, ...] = ()

    @property
    def graded(self) -> bool:
        return self.status == "graded"


def r_human(grade: Grade, weights: Weights | None = None) -> float | None:
    """R in [-1, 1]: 0.45 goal + 0.30 process + 0.25 satisfaction, or other weights; None where ungraded.

    A grade of source `explicit` has only satisfaction, and its R is that alone.
    """
    if not grade.graded:
        return None
    if grade.source == "explicit":
        return grade.user_satisfaction
    goal, process, satisfaction = grade.goal_achievement, grade.process_quality, grade.user_satisfaction
    if goal is None or process is None or satisfaction is None:
        return None
    w = weights or Weights()
    return max(-1.0, min(1.0, math.fsum((w.goal * goal, w.process * process, w.satisfaction * satisfaction))))


def label_agrees(grade: Grade) -> bool | None:
    """Whether the label fits the goal axis: success above 0, failure below 0, partial strictly between -1 and 1.

    None where there is nothing to compare (ungraded, no label, or `unknown`).
    """
    goal = grade.goal_achievement
    if not grade.graded or goal is None or grade.label in (None, "unknown"):
        return None
    return {"success": goal > 0, "failure": goal < 0, "partial": -1 < goal < 1}[str(grade.label)]
