"""What scheduling, watching, leases and commits cost where nothing goes wrong: against the same actors in a bare loop.

    python -m benchmarks.machinery [--rounds 5] [--episodes 48]

The bare loop gives each actor its next unit when it has answered, and forgets the staged shards. Rounds take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from typing import Any

from actors.capacity import Share
from actors.cluster import Cluster
from benchmarks.ours import Stopwatch, Unit, steady
from rollouts.commands.playing import Ready, play, start
from rollouts.commands.preparing import prepare
from rollouts.config import RunConfig
from rollouts.errors import RunStopped
from rollouts.grading_config import GradingConfig
from rollouts.pools.players import MakeWorker
from rollouts.pools.pool import Task
from rollouts.progress import Counts
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

SCENARIO, FIRST_SEED, ACTORS, EPISODES_PER_UNIT, ONE_CPU = "defend_the_center", 1_000, 2, 4, Share(1.0, 0.0)


class _Quiet:
    """Hears everything and prints only what went wrong."""

    def launch(self, *_: object) -> None: ...
    def counts(self, _: Counts) -> None: ...
    def note(self, text: str) -> None:
        print(text)

    def done(self, *_: object) -> None: ...
    def close(self) -> None: ...


def bare_rate(ready: Ready) -> float:
    """Decisions a second of actors that are asked for one unit after the other. Errors: `RunStopped`."""
    import ray  # noqa: PLC0415  Ray must see the cluster's settings first

    from actors.rollout_actor import Played, RemoteRolloutActor  # noqa: PLC0415

    make, owed = MakeWorker(ready.prepared.order, ready.prepared.folder.storage.uri), list(ready.standing.owed)
    actors = [RemoteRolloutActor.options(num_cpus=1).remote(True) for _ in range(ACTORS)]
    ray.get([actor.prepare.remote(0, f"bare-{n}", make) for n, actor in enumerate(actors)], timeout=120)
    units: dict[int, list[Unit]] = {n: [] for n in range(ACTORS)}
    asked = {actor.play.remote(0, Task(owed.pop(0), "bare")): n for n, actor in enumerate(actors)}
    while asked:
        (done,), _ = ray.wait(list(asked), num_returns=1, timeout=300)
        n, answer = asked.pop(done), ray.get(done, timeout=60)
        if not isinstance(answer, Played):
            raise RunStopped(f"the bare loop failed: {answer}")
        units[n].append(Unit(time.perf_counter(), answer.report.n_decisions))
        if owed:
            asked[actors[n].play.remote(0, Task(owed.pop(0), "bare"))] = n
    ray.get([actor.close.remote(0) for actor in actors], timeout=60)
    return _rate(list(units.values()))


def our_rate(ready: Ready) -> float:
    """The same through the pool, the scheduler, the lease and the commits. Errors: `RunStopped`."""
    from actors.ray_pool import RayPool  # noqa: PLC0415

    make = MakeWorker(ready.prepared.order, ready.prepared.folder.storage.uri)
    with Signals() as signals:
        pool = Stopwatch(RayPool(make, ACTORS, ONE_CPU, 1_000, 2_000))
        outcome = play(ready, pool, _Quiet(), signals).outcome
        pool.close()
    if outcome.state != "complete":
        raise RunStopped(f"the run is {outcome.state}: {outcome.cause}")
    return _rate(list(pool.units.values()))


def _rate(units: list[list[Unit]]) -> float:
    dry_s = min(of[-1].at_s for of in units)
    spans = [steady(of, dry_s, 0.0) for of in units]
    return sum(span.decisions / span.seconds for span in spans)


def measure(rounds: int, episodes: int, frames: Any) -> dict[str, Any]:
    """Rates by round and the ratio of their medians, ours over bare."""
    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    for number in range(2 * rounds):
        which = "ours" if number % 4 in {1, 2} else "bare"  # neither always goes first
        with tempfile.TemporaryDirectory(prefix="doom-rollouts-bench-") as folder:
            config = RunConfig(
                scenarios=(SCENARIO,),
                seeds=tuple(range(FIRST_SEED, FIRST_SEED + episodes)),
                frames=frames,
                episodes_per_unit=EPISODES_PER_UNIT,
                out=folder,
            )
            prepared = prepare(config, open_storage(folder), grading=GradingConfig(grade="none"))
            ready = start(prepared, prepared.folder.acquire())
            rates[which].append(our_rate(ready) if which == "ours" else bare_rate(ready))
            prepared.folder.finish(ready.lease)
    medians = {which: statistics.median(found) for which, found in rates.items()}
    return {"frames": frames, "rates": rates, "ratio": medians["ours"] / medians["bare"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=48)
    asked = parser.parse_args()
    cluster = Cluster()
    try:
        for frames in ("none", "png"):
            print(json.dumps(measure(asked.rounds, asked.episodes, frames)), flush=True)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
