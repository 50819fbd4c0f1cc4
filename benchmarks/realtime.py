"""What thinking costs in real time: the rule in defend_the_center under set latencies, over the same seeds.

    python -m benchmarks.realtime [--seeds 32] [--meanwhile hold]

Prints the table of the README. Seeds are the published ones and those that follow, one episode each. Intervals are 95 %
bootstrap intervals over seeds (benchmarks/paired.py); of differences, over seed by seed ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import get_args

from benchmarks.paired import interval, play, seeds_of
from rollouts.realtime import Meanwhile, RealTime
from rollouts.scenarios.registry import SCENARIOS

SCENARIO = SCENARIOS["defend_the_center"]
LATENCIES_MS = (0.0, 100.0, 300.0, 1_000.0)
HEADINGS = ("latency", "kills: mean [95 %]", "less than at 0 ms [95 %]", "decisions", "tics waited")


def table(seeds: Sequence[int], meanwhile: Meanwhile) -> list[tuple[str, ...]]:
    """A line a latency."""
    lines: list[tuple[str, ...]] = []
    at_once: list[float] = []
    for latency_ms in LATENCIES_MS:
        episodes = play(SCENARIO, "oracle", seeds, RealTime(meanwhile, latency_ms))
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
        *table(seeds_of(SCENARIO, asked.seeds), asked.meanwhile),
    ):
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
