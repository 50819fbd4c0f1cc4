"""Policies on the same seeds, through the loop of a run, and how sure their means are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from rollouts.doom.environment import make_environment
from rollouts.episode import EpisodeRules, run_episode
from rollouts.policies.registry import make_policy
from rollouts.realtime import RealTime
from rollouts.records import Decision, Episode, EpisodeKey
from rollouts.scenarios.scenario import Scenario
from rollouts.statistics.estimates import bootstrap_mean


@dataclass(frozen=True)
class Interval:
    """A mean over episodes, and its 95 % bootstrap interval; NaN where that is undefined."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = "undefined" if math.isnan(self.low) else f"{self.low:.2f}, {self.high:.2f}"
        return f"{self.mean:.2f} [{ends}]"


def interval(values: Sequence[float]) -> Interval:
    """As every mean of a run has it (`rollouts.statistics`; extra `report`). Errors: `ValueError` without a value."""
    found = bootstrap_mean(values)
    ends = (math.nan, math.nan) if found is None else (found.low, found.high)
    return Interval(statistics.mean(values), *ends)


def seeds_of(scenario: Scenario, count: int) -> tuple[int, ...]:
    """The scenario's own seeds first, then the numbers that follow the last of them."""
    following = range(scenario.seeds[-1] + 1, scenario.seeds[-1] + 1 + count)
    return (*scenario.seeds, *following)[:count]


class _Nothing:
    def record(self, decision: Decision) -> None:
        """Only the episode is wanted."""


def play(scenario: Scenario, policy: str, seeds: Sequence[int], realtime: RealTime | None = None) -> list[Episode]:
    """The first episode of each seed, under the scenario's own tics and step cap."""
    rubric = next(iter(scenario.instructions))
    rules = EpisodeRules(scenario, scenario.tics, scenario.step_cap, run_seed=0, realtime=realtime)
    player = make_policy(policy, scenario)
    keys = [EpisodeKey(scenario.name, rubric, policy, seed, 0) for seed in seeds]
    with closing(make_environment(scenario, None)) as environment:
        return [run_episode(key, rules, environment, player, _Nothing()) for key in keys]
