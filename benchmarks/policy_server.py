"""How many more decisions a second one network makes for many games where it answers them in batches.

    python -m benchmarks.policy_server [--actors 16] [--episodes 4]

The network takes 5 ms a call, whatever the batch, as a small one on a GPU does. Both runs have the same policy server;
in one of them no batch has more than one decision. `--episodes` is for each actor; the faster run gets three times as
many.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.ours import Means, Quiet, play_through
from rollouts.commands.pools import Place
from rollouts.commands.preparing import prepare
from rollouts.config import RunConfig, load_config
from rollouts.errors import RunStopped
from rollouts.grading_config import GradingConfig
from rollouts.policies.base import Question
from rollouts.policies.network import answer, softmax
from rollouts.records import Answer, PolicyDescription
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

CALL_S = 0.005
GOAL = 3.0
LOG = "ROLLOUTS_BENCH_LOG"
NO_GRADES = GradingConfig(grade="none")


class FixedTime:
    """One layer over what the text says; a call takes `CALL_S`. Each call is noted in the file that LOG names."""

    needs_frames = False

    def __init__(self) -> None:
        self._weights = np.random.default_rng(0).normal(size=(64, 3))

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        over_s = time.perf_counter() + CALL_S
        letters = np.array([np.bincount(list(q.text.encode()), minlength=256)[64:128] for q in questions])
        shares = softmax(letters @ self._weights)
        time.sleep(max(over_s - time.perf_counter(), 0.0))
        with Path(os.environ[LOG]).open("a") as log:
            log.write(f"{time.perf_counter()} {len(questions)}\n")
        return [answer(row, q.options, CALL_S * 1000) for row, q in zip(shares, questions, strict=True)]

    def describe(self) -> PolicyDescription:
        return PolicyDescription("fixed-time", "model", model="one layer")


@dataclass(frozen=True)
class Measured:
    """Of all actors together, from when each had played an episode until the first of them had nothing to do."""

    actors: int
    most_in_a_batch: int
    seconds: float
    decisions_per_s: float
    decisions_a_call: float


def measure(actors: int, episodes: int, most: int) -> Measured:
    """`episodes` for each actor, on a Ray of its own. Errors: `RunStopped` where the run did not complete, or was too
    short to measure."""
    with tempfile.TemporaryDirectory(prefix="doom-rollouts-bench-") as folder:
        os.environ[LOG] = f"{folder}/calls"
        prepared = prepare(_config(actors, episodes, most, folder), open_storage(folder), grading=NO_GRADES)
        with Signals() as signals, Place("ray") as place:
            means = Means(lambda prepared: place.rollout_pool(prepared, signals), signals, Quiet())
            pool = play_through(prepared, means)
        from_s, until_s = pool.all_at_work()
        calls = [(float(at_s), int(n)) for at_s, n in map(str.split, Path(os.environ[LOG]).read_text().splitlines())]
    sizes = [n for at_s, n in calls if from_s <= at_s <= until_s]
    if len(pool.units) < actors or len(sizes) < 100:
        raise RunStopped("too few episodes to measure a steady state: give more --episodes")
    seconds = until_s - from_s
    return Measured(actors, most, seconds, sum(sizes) / seconds, sum(sizes) / len(sizes))


def _config(actors: int, episodes: int, most: int, folder: str) -> RunConfig:
    wished = {
        **{"scenarios": "defend_the_center", "policies": "benchmarks.policy_server:FixedTime", "frames": "none"},
        **{"seeds": f"0:{actors * episodes}", "episodes_per_unit": "1", "out": folder},
        **{"actors": str(actors), "cpus_per_actor": "0.05", "policy_server": "1", "policy_server_batch": str(most)},
    }
    return load_config(wished, None, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=16)
    parser.add_argument("--episodes", type=int, default=4)
    asked = parser.parse_args()
    alone, together = (
        measure(asked.actors, episodes, most) for most, episodes in ((1, asked.episodes), (64, 3 * asked.episodes))
    )
    ratio = together.decisions_per_s / alone.decisions_per_s
    print(json.dumps({"alone": asdict(alone), "together": asdict(together), "ratio": ratio, "goal": GOAL}, indent=1))


if __name__ == "__main__":
    main()
