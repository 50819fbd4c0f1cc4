"""What it costs a run of the rule, the fastest that there is, to be watched: with `--metrics-port` beside without.

    python -m benchmarks.watched [--rounds 3] [--episodes 96]

Each run has a Ray of its own; the two take turns. A round has `--episodes` of defend_the_center, without frames.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.ours import Means, Order, Quiet, measure
from rollouts.commands.pools import Place
from rollouts.signals import Signals

ACTORS, EPISODES_PER_UNIT = 2, 4


def rate(episodes: int, metrics_port: int | None) -> float:
    """Decisions a second of all actors. Errors: `RunStopped` where the run did not complete, or was too short."""
    order = Order("defend_the_center", tuple(range(episodes)), "none", ACTORS, EPISODES_PER_UNIT)
    with (
        tempfile.TemporaryDirectory(prefix="doom-rollouts-bench-") as folder,
        Signals() as signals,
        Place("ray", metrics_port=metrics_port) as place,
    ):
        means = Means(lambda prepared: place.rollout_pool(prepared, signals), signals, Quiet(), place)
        return sum(span.decisions / span.seconds for span in measure(order, Path(folder), means))


def compare(rounds: int, episodes: int) -> dict[str, object]:
    """Rates by round, and the ratio of their medians: watched over unwatched."""
    rates: dict[str, list[float]] = {"watched": [], "unwatched": []}
    for number in range(2 * rounds):
        which = "watched" if number % 4 in {1, 2} else "unwatched"  # neither always goes first
        rates[which].append(rate(episodes, 0 if which == "watched" else None))
    medians = {which: statistics.median(found) for which, found in rates.items()}
    return {"rates": rates, "ratio": medians["watched"] / medians["unwatched"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=96)
    asked = parser.parse_args()
    print(json.dumps(compare(asked.rounds, asked.episodes), indent=1))


if __name__ == "__main__":
    main()
