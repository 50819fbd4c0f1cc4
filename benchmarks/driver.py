"""What a unit costs the driver where there are very many actors: the real driver, scheduler, pool, lease, commits and
log, on a real folder, with actors that only pretend to play.

    python -m benchmarks.driver [--actors 1000] [--units 100000] [--unit-s 2] [--deaths 0.001]

Counted is the processor time of the driver's thread (goal: under 1 ms a unit) and of its whole process, with the
threads that commit; how long actors had nothing to do; and memory, at each tenth of the units. Not in it: what Ray
itself takes for a call.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from array import array
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from actors.capacity import Share
from actors.ray_pool import RayPool
from benchmarks.ours import Quiet
from benchmarks.pretended import pretended_actors
from rollouts.commands.judging import Watch, driver_log
from rollouts.commits import RunCommits
from rollouts.driver import Committed, Outcome, RunEvent, drive
from rollouts.errors import RunStopped
from rollouts.pools.patience import Limits
from rollouts.pools.pool import Player
from rollouts.progress import Counts
from rollouts.records import PlannedEpisode, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import open_storage

GOAL_MS = 1.0
RUN = "pretended"


@dataclass(frozen=True)
class Cost:
    """Of one run. `idle_ms_mean` and `idle_ms_p99`: from an answer to that actor's next task. `memory_mib`: of the
    driver's process, at each tenth of the units."""

    actors: int
    units: int
    seconds: float
    driver_ms_a_unit: float
    process_ms_a_unit: float
    idle_ms_mean: float
    idle_ms_p99: float
    memory_mib: tuple[float, ...]
    deaths: int


class Observer:
    """Counts commits, as the command does, and looks at the memory."""

    def __init__(self, watch: Watch, units: int) -> None:
        self._watch = watch
        self._every = max(1, units // 10)
        self._process = psutil.Process()
        self.committed = array("q")
        self.memory_mib: list[float] = []

    def __call__(self, event: RunEvent) -> None:
        if isinstance(event, Committed):
            self.committed.append(event.unit.number)
            self._watch.add(self._watch.counts.plus(1, 0, 1, 0))
            if len(self.committed) % self._every == 0:
                self.memory_mib.append(self._process.memory_info().rss / 2**20)
        self._watch.keep("rollouts", event)


def make_units(count: int) -> list[Unit]:
    """Of one episode each, in two groups."""
    groups = (("defend_the_center", "oracle"), ("health_gathering", "random"))
    of = (groups[2 * n // count] for n in range(count))
    return [Unit(n, scenario, "rule", policy, (PlannedEpisode(n, 0),)) for n, (scenario, policy) in enumerate(of)]


def measure(actors: int, units: int, unit_s: float, deaths: float, out: Path) -> Cost:
    """Play `units` that take about `unit_s` each. Errors: `RunStopped` where not every one is committed once."""
    folder, planned = RunFolder(open_storage(str(out)), RUN), make_units(units)
    lease = folder.acquire()
    folder.create(lease, {"run_id": RUN}, planned)
    observer = Observer(Watch(Quiet(), Counts(), driver_log(folder, lease)), units)
    with pretended_actors(str(out), RUN, unit_s, deaths) as elsewhere:
        pool = RayPool(_make_nobody, actors, Share(1.0, 0.0))
        began, thread_s, process_s = time.monotonic(), time.thread_time(), time.process_time()
        outcome = drive(planned, pool, RunCommits(folder, lease), limits=Limits(starting=actors), on_event=observer)
        seconds, thread_s = time.monotonic() - began, time.thread_time() - thread_s
        process_s = time.process_time() - process_s
    folder.finish(lease)
    _check(outcome, folder, observer.committed, units)
    idle_ms = sorted(1000 * idle_s for idle_s in elsewhere.idle_s)
    return Cost(
        actors=actors,
        units=units,
        seconds=round(seconds, 1),
        driver_ms_a_unit=round(1000 * thread_s / units, 3),
        process_ms_a_unit=round(1000 * process_s / units, 3),
        idle_ms_mean=round(statistics.fmean(idle_ms), 2),
        idle_ms_p99=round(idle_ms[int(0.99 * len(idle_ms))], 2),
        memory_mib=tuple(round(mib, 1) for mib in observer.memory_mib),
        deaths=elsewhere.deaths,
    )


def _make_nobody(worker: str, node: str) -> Player:
    """A pretended actor makes no player."""
    raise AssertionError(f"{worker} on {node} was to play")


def _check(outcome: Outcome, folder: RunFolder, committed: array[int], units: int) -> None:
    if outcome.state != "complete" or outcome.failed_episodes:
        raise RunStopped(f"the run is {outcome.state}: {outcome.cause or outcome.first_failure}")
    there = {table: len(folder.storage.list(folder.path(table))) for table in ("steps", "episodes")}
    if sorted(committed) != list(range(units)) or set(there.values()) != {units}:
        raise RunStopped(f"of {units} units {len(committed)} were committed, and {there} shards are there")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=1_000)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--unit-s", type=float, default=2.0)
    parser.add_argument("--deaths", type=float, default=0.001)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="doom-rollouts-driver-") as out:
        cost = measure(asked.actors, asked.units, asked.unit_s, asked.deaths, Path(out))
    print(json.dumps(asdict(cost)))


if __name__ == "__main__":
    main()
