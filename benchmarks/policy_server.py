"""How many more decisions a second one network makes for many games where it answers them in batches.

    python -m benchmarks.policy_server [--actors 16] [--episodes 5]

The network takes 5 ms a call, whatever the batch, as a small one on a GPU does. Both runs have the same policy server;
in one of them no batch has more than one decision.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.ours import Quiet, Stopwatch
from rollouts.commands.playing import play, start
from rollouts.commands.pools import Place
from rollouts.commands.preparing import prepare
from rollouts.config import load_config
from rollouts.errors import RunStopped
from rollouts.grading_config import GradingConfig
from rollouts.policies.base import Question
from rollouts.policies.network import answer, softmax
from rollouts.records import Answer, PolicyDescription
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

CALL_S = 0.005
GOAL = 3.0


class FixedTime:
    """One layer over what the text says; a call takes `CALL_S`."""

    needs_frames = False

    def __init__(self) -> None:
        self._weights = np.random.default_rng(0).normal(size=(64, 3))

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        over_s = time.perf_counter() + CALL_S
        letters = np.array([np.bincount(list(q.text.encode()), minlength=256)[64:128] for q in questions])
        shares = softmax(letters @ self._weights)
        time.sleep(max(over_s - time.perf_counter(), 0.0))
        return [answer(row, q.options, CALL_S * 1000) for row, q in zip(shares, questions, strict=True)]

    def describe(self) -> PolicyDescription:
        return PolicyDescription("fixed-time", "model", model="one layer")


@dataclass(frozen=True)
class Measured:
    """Decisions a second of all actors together, once each has played its first episode."""

    actors: int
    batch: int
    decisions_per_s: float


def measure(actors: int, episodes: int, batch: int) -> Measured:
    """`episodes` for each actor, on a Ray of its own. Errors: `RunStopped` where the run did not complete."""
    with tempfile.TemporaryDirectory(prefix="doom-rollouts-bench-") as folder:
        wished = {
            **{"scenarios": "defend_the_center", "policies": "benchmarks.policy_server:FixedTime", "frames": "none"},
            **{"seeds": f"0:{actors * episodes}", "episodes_per_unit": "1", "out": folder},
            **{"actors": str(actors), "cpus_per_actor": "0.05"},
            **{"policy_server": "1", "policy_server_batch": str(batch)},
        }
        prepared = prepare(load_config(wished, None, {}), open_storage(folder), grading=GradingConfig(grade="none"))
        with Signals() as signals, Place("ray") as place:
            begun_s = time.perf_counter()
            pool = Stopwatch(place.rollout_pool(prepared, signals))
            ready = start(prepared, prepared.folder.acquire())
            outcome = play(ready, pool, Quiet(), signals).outcome
            prepared.folder.finish(ready.lease)
        if outcome.state != "complete" or outcome.failed_episodes:
            raise RunStopped(f"the run is {outcome.state}: {outcome.cause or outcome.first_failure}")
        return Measured(actors, batch, sum(span.decisions / span.seconds for span in pool.spans(begun_s)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=16)
    parser.add_argument("--episodes", type=int, default=5)
    asked = parser.parse_args()
    alone, together = (measure(asked.actors, asked.episodes, batch) for batch in (1, 64))
    ratio = together.decisions_per_s / alone.decisions_per_s
    print(json.dumps({"alone": asdict(alone), "together": asdict(together), "ratio": ratio, "goal": GOAL}, indent=1))


if __name__ == "__main__":
    main()
