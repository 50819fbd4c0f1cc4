"""What thinking costs in real time: the rule in defend_the_center under set latencies, over the same seeds.

    python -m benchmarks.realtime [--seeds 32] [--meanwhile hold]

Prints the table of the README. Seeds are the published ones and those that follow, one episode each. An interval is the
2.5th to the 97.5th percentile of bootstrap means over seeds (Efron, 1979); of differences, over seed by seed ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from rollouts.doom.environment import make_environment
from rollouts.episode import EpisodeRules, run_episode
from rollouts.policies.registry import make_policy
from rollouts.realtime import Meanwhile, RealTime
from rollouts.records import Decision, Episode, EpisodeKey
from rollouts.scenarios import SCENARIOS

SCENARIO = SCENARIOS["defend_the_center"]
LATENCIES_MS = (0.0, 100.0, 300.0, 1_000.0)
RESAMPLES = 10_000
HEADINGS = ("latency", "kills: mean [95 %]", "less than at 0 ms [95 %]", "decisions", "tics waited")


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


def interval(values: Sequence[float]) -> Interval:
    """Errors: `ValueError` where there are no values."""
    drawn = np.random.default_rng(0).choice(np.asarray(values, np.float64), (RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), (2.5, 97.5))
    return Interval(float(np.mean(values)), float(low), float(high))


class _Nothing:
    def record(self, decision: Decision) -> None:
        """Only the episode is wanted."""


def paired_seeds(count: int) -> tuple[int, ...]:
    first = SCENARIO.seeds[0]
    return tuple(range(first, first + count))


def play(seeds: Sequence[int], realtime: RealTime | None) -> list[Episode]:
    """The rule plays the first episode of each seed."""
    rules = EpisodeRules(SCENARIO, SCENARIO.tics, SCENARIO.step_cap, run_seed=0, realtime=realtime)
    environment, policy = make_environment(SCENARIO, None), make_policy("oracle", SCENARIO)
    keys = [EpisodeKey(SCENARIO.name, "rule", "oracle", seed, 0) for seed in seeds]
    try:
        return [run_episode(key, rules, environment, policy, _Nothing()) for key in keys]
    finally:
        environment.close()


def table(seeds: Sequence[int], meanwhile: Meanwhile) -> list[tuple[str, ...]]:
    """A line a latency."""
    lines: list[tuple[str, ...]] = []
    at_once: list[float] = []
    for latency_ms in LATENCIES_MS:
        episodes = play(seeds, RealTime(meanwhile, latency_ms))
        kills = [episode.metric for episode in episodes]
        at_once = at_once or kills
        less = [without - with_latency for without, with_latency in zip(at_once, kills, strict=True)]
        counts = (sum(e.steps for e in episodes), sum(e.waited_tics or 0 for e in episodes))
        lost = "-" if latency_ms == 0 else str(interval(less))
        lines.append((f"{latency_ms:,.0f} ms", str(interval(kills)), lost, *(f"{count:,}" for count in counts)))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--meanwhile", choices=get_args(Meanwhile), default="hold")
    asked = parser.parse_args()
    for line in (
        HEADINGS,
        ("---", *["---:"] * (len(HEADINGS) - 1)),
        *table(paired_seeds(asked.seeds), asked.meanwhile),
    ):
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
