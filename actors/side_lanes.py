"""Judges in Ray actors, with one governor for all their calls. Use it only once Ray is up.

Credit calls no model and is soon done: it stays in the driver's process, and so do grades without a model.
"""

from __future__ import annotations

from actors.governor import GovernedRun
from actors.grader_actor import RemoteGraderActor
from actors.side_pool import RayLanes, Staff
from actors.summarizer_actor import RemoteSummarizerActor
from grading.judge import MakeJudge, Stage, asks_models
from grading.lines import LocalBench, SideWish, actors_of
from rollouts.calls.limits import LimiterStatus
from rollouts.pools.lanes import LanePool


class RayBench:
    """The pools of one pipeline. `governor` is the run's, where its policies call models too; it begins with the first
    pool that calls any."""

    watched = True

    def __init__(self, wish: SideWish, governor: GovernedRun | None = None, look_every_s: float = 5.0) -> None:
        self._wish = wish
        self._look_every_s = look_every_s
        self._governor = governor or GovernedRun()

    def lanes(self, stage: Stage) -> LanePool:
        wish = self._wish
        if not asks_models(wish.order, stage):
            return LocalBench(wish).lanes(stage)
        self._governor.begin(wish.limits)
        remote = RemoteGraderActor if stage == "grades" else RemoteSummarizerActor
        staff = Staff(remote, actors_of(wish, stage), wish.lanes, self._governor.handle, wish.limits.in_flight)
        return RayLanes(MakeJudge(wish.order, stage), staff, look_every_s=self._look_every_s)

    def calls(self, patience_s: float = 0.0) -> LimiterStatus | None:
        """What the governor last said; asks it again."""
        return self._governor.status(patience_s)
