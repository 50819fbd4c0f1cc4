"""Which lines of work an order of grading takes, and what each waits for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from grading.judge import MakeJudge, Stage, asks_models
from grading.order import GradingOrder
from grading.owed import Owed
from grading.pipeline import LANE_LIMITS, LOCAL_LIMITS, Line, SidePipeline
from rollouts.calls.limits import LimiterStatus, Limits
from rollouts.calls.run_limiter import LocalRunLimiter
from rollouts.commits import Commits
from rollouts.driver import Stop
from rollouts.pools.lanes import LanePool, LocalLanes
from rollouts.pools.patience import Limits as Patience

CREDIT_LANES = 2


@dataclass(frozen=True)
class SideWish:
    """What is to be judged, how fast (`limits`, with what earlier starts have `spent`), and by how many.

    `graders` and `summarizers` are actors, each with up to `lanes` units under way. `judged_where_played`: the workers
    of the rollouts grade what they play, so that only what earlier starts left is graded here.
    """

    order: GradingOrder
    limits: Limits
    graders: int = 1
    summarizers: int = 1
    lanes: int = 16
    judged_where_played: bool = False


class Bench(Protocol):
    """Where judges sit: makes the pool of each stage, and knows the one limiter of all calls."""

    @property
    def watched(self) -> bool:
        """Whether a worker that hangs can be replaced."""
        ...

    def lanes(self, stage: Stage) -> LanePool: ...

    def calls(self, patience_s: float = 0.0) -> LimiterStatus | None:
        """How the calls stand, as far as is known within `patience_s`; None where no model is called."""
        ...


class LocalBench:
    """Judges in threads of this process; `limiter` is the run's, where its policies call models too."""

    watched = False

    def __init__(self, wish: SideWish, limiter: LocalRunLimiter | None = None) -> None:
        self._wish = wish
        self._limiter = limiter or LocalRunLimiter()
        if wish.order.uses_model:
            self._limiter.begin(wish.limits)

    def lanes(self, stage: Stage) -> LanePool:
        make = MakeJudge(self._wish.order, stage)
        limiter = self._limiter() if self._wish.order.uses_model else None
        slots = lanes_of(self._wish, stage)
        return LocalLanes(lambda: make(f"{stage}-{os.getpid()}", limiter), slots, stage)

    def calls(self, patience_s: float = 0.0) -> LimiterStatus | None:
        return self._limiter.status(patience_s)


def lanes_of(wish: SideWish, stage: Stage) -> int:
    """Units that a stage has under way at once."""
    if not asks_models(wish.order, stage):
        return CREDIT_LANES
    return wish.lanes * actors_of(wish, stage)


def actors_of(wish: SideWish, stage: Stage) -> int:
    """Processes of a stage that calls a model."""
    return wish.graders if stage == "grades" else wish.summarizers


def make_pipeline(
    wish: SideWish, bench: Bench, commits: Commits, signals: Stop | None = None, ahead: bool = False
) -> SidePipeline:
    """The lines of `wish`, none of them started. `ahead`: actors of the first that calls a model are made before the
    first unit comes; while rollout actors start too, those of another would only put off the first episode."""
    stages = stages_of(wish)
    first = next((stage for stage, _, _ in stages if asks_models(wish.order, stage)), None)

    def patience(stage: Stage) -> Patience:
        if not bench.watched or not asks_models(wish.order, stage):
            return LOCAL_LIMITS
        return replace(LANE_LIMITS, ahead=actors_of(wish, stage) if ahead and stage == first else 0)

    lines = [Line(stage, bench.lanes(stage), after, patience(stage), fed) for stage, after, fed in stages]
    return SidePipeline(lines, commits, signals, bench.calls)


def stages_of(wish: SideWish) -> list[tuple[Stage, frozenset[Stage], bool]]:
    """Stage, what it waits for, and whether it takes what is played meanwhile.

    A grading task gives credit too, except where the rule reads summaries that it does not wait for.
    """
    order = wish.order
    reads = order.reads_id is not None
    found: list[tuple[Stage, frozenset[Stage], bool]] = []
    if order.summarizer is not None:
        found.append(("summaries", frozenset(), True))
    if order.grader is not None:
        found.append(("grades", frozenset({"summaries"}) if reads else frozenset(), not wish.judged_where_played))
    if order.credit is not None:
        found.append(("credit", frozenset({"summaries", "grades"}), _credited_by_summary(order) and not reads))
    return found


def add_owed(pipeline: SidePipeline, owed: Owed, wish: SideWish) -> None:
    """What earlier starts left of the committed units. Credit by summaries may follow from a new one of any unit."""
    wanted: dict[int, set[Stage]] = {}
    units = {unit.number: unit for unit in (*owed.summaries, *owed.grades, *owed.credit)}
    stages: Iterable[tuple[Stage, Iterable[int]]] = (
        ("summaries", [unit.number for unit in owed.summaries]),
        ("grades", [unit.number for unit in owed.grades]),
        ("credit", list(units) if _credited_by_summary(wish.order) else [unit.number for unit in owed.credit]),
    )
    for stage, numbers in stages:
        for number in numbers:
            wanted.setdefault(number, set()).add(stage)
    for number in sorted(wanted):
        pipeline.add(units[number], wanted[number])


def _credited_by_summary(order: GradingOrder) -> bool:
    return order.credit is not None and order.credit.rule.name == "summary"
