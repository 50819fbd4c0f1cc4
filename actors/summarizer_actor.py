"""Summarizes units in a process of its own."""

from __future__ import annotations

from typing import Any

import ray

from actors.lane_actor import LANE_OPTIONS, LaneActor


class SummarizerActor(LaneActor):
    """A lane actor under a name that people find in Ray's lists."""


RemoteSummarizerActor: Any = ray.remote(**LANE_OPTIONS)(SummarizerActor)
