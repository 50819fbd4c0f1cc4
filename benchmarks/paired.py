"""Policies on the same seeds, through the loop of a run, and how sure their means are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from rollouts.doom.environment import make_environment
from rollouts.episode import EpisodeRules, run_episode
from rollouts.policies.registry import make_policy
from rollouts.realtime import RealTime
from rollouts.records import Decision, Episode, EpisodeKey
from rollouts.scenarios.scenario import Scenario

RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """A mean over episodes, and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


def interval(values: Sequence[float]) -> Interval:
    """From the 2.5th to the 97.5th percentile of bootstrap means (Efron, 1979); the same values give the same interval.

    Errors: `ValueError` where there are no values.
    """
    drawn = np.random.default_rng(0).choice(np.asarray(values, np.float64), (RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), (2.5, 97.5))
    return Interval(float(np.mean(values)), float(low), float(high))


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
