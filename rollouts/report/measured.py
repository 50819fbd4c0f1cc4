"""What plots are made of: a group's episodes and calibration, and the times and actions of all its decisions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from rollouts.calibration import Floats
from rollouts.evidence.committed_run import CommittedRun, GroupName
from rollouts.evidence.episode_numbers import GroupNumbers, measure
from rollouts.report.episode_rows import EpisodeRows


@dataclass(frozen=True, slots=True)
class Actions:
    """How often each action was sent, and prescribed; None where nothing was sent, or nothing is prescribed."""

    sent: Counter[str | None] = field(default_factory=Counter)
    teacher: Counter[str | None] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class MeasuredGroup(GroupNumbers):
    """`latency_ms` holds every latency that was measured, (n,), in no order."""

    latency_ms: Floats
    actions: Actions


def measure_groups(run: CommittedRun, rows: EpisodeRows) -> tuple[MeasuredGroup, ...]:
    """Every group of the plan, in its order. Errors: `StorageError`, also where a shard is torn."""
    groups = measure(run)
    latency_ms: dict[GroupName, list[Floats]] = {group.facts.name: [np.zeros(0)] for group in groups}
    actions = {group.facts.name: Actions() for group in groups}
    for name, times, sent, teacher in rows.times_and_actions():
        latency_ms[name].append(times)
        actions[name].sent.update(sent)
        actions[name].teacher.update(teacher)
    return tuple(
        MeasuredGroup(
            group.facts,
            group.episodes,
            group.calibration,
            np.concatenate(latency_ms[group.facts.name]),
            actions[group.facts.name],
        )
        for group in groups
    )
