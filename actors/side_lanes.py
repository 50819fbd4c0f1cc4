"""Judges in Ray actors, with one governor for all their calls. Use it only once Ray is up.

Credit calls no model and is soon done: it stays in the driver's process, and so do grades without a model.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from actors.governor import start_governor
from actors.grader_actor import RemoteGraderActor
from actors.side_pool import RayLanes, Staff
from actors.summarizer_actor import RemoteSummarizerActor
from grading.judge import MakeJudge, Stage, asks_models
from grading.lines import LocalBench, SideWish, actors_of
from rollouts.calls.limits import LimiterStatus
from rollouts.pools.lanes import LanePool


class RayBench:
    """The pools of one pipeline. The governor starts with the first of them that calls models."""

    watched = True

    def __init__(self, wish: SideWish, look_every_s: float = 5.0) -> None:
        self._wish = wish
        self._look_every_s = look_every_s
        self._governor: Any = None
        self._known = LimiterStatus(0, 0, 0, wish.limits.spent, (), None)
        self._asking = threading.Event()

    def lanes(self, stage: Stage) -> LanePool:
        wish = self._wish
        if not asks_models(wish.order, stage):
            return LocalBench(wish).lanes(stage)
        if self._governor is None:
            self._governor = start_governor(wish.limits)
        remote = RemoteGraderActor if stage == "grades" else RemoteSummarizerActor
        staff = Staff(remote, actors_of(wish, stage), wish.lanes, self._governor, wish.limits.in_flight)
        return RayLanes(MakeJudge(wish.order, stage), staff, look_every_s=self._look_every_s)

    def calls(self, patience_s: float = 0.0) -> LimiterStatus | None:
        """What the governor last said; asks it again."""
        if self._governor is None:
            return None
        told = threading.Event()

        def keep(answer: Future[LimiterStatus]) -> None:
            if answer.exception() is None:
                self._known = answer.result()
            told.set()

        self._governor.status.remote().future().add_done_callback(keep)
        told.wait(patience_s)
        return self._known
