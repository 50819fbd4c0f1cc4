"""(b) and (c): our rollouts as `rollouts run` plays them: plan, Ray actors, shards, staging, commits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.spans import Span
from rollouts.commands.playing import play, start
from rollouts.commands.pools import Place
from rollouts.commands.preparing import Prepared, prepare
from rollouts.config import RunConfig
from rollouts.errors import RunStopped
from rollouts.frames import FrameFormat
from rollouts.grading_config import GradingConfig
from rollouts.pools.pool import Event, Finished, Pool, Started, Task
from rollouts.progress import Reporter
from rollouts.records import UnitReport
from rollouts.signals import Signals
from rollouts.store.storage import open_storage


@dataclass(frozen=True)
class Unit:
    """A unit came back: when, and with how many decisions."""

    at_s: float
    decisions: int


class Stopwatch:
    """A pool that takes the time of the one it wraps."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.started_s: dict[int, float] = {}
        self.units: dict[int, list[Unit]] = {}

    @property
    def slots(self) -> int:
        return self._pool.slots

    def start(self, slot: int) -> None:
        self._pool.start(slot)

    def send(self, slot: int, task: Task) -> None:
        self._pool.send(slot, task)

    def kill(self, slot: int) -> None:
        self._pool.kill(slot)

    def wait(self, timeout_s: float) -> Sequence[Event]:
        events = self._pool.wait(timeout_s)
        for event in events:
            if isinstance(event, Started):
                self.started_s[event.slot] = time.perf_counter()
            elif isinstance(event, Finished) and isinstance(event.report, UnitReport):
                self.units.setdefault(event.slot, []).append(Unit(time.perf_counter(), event.report.n_decisions))
        return events

    def close(self) -> None:
        self._pool.close()

    def spans(self, begun_s: float) -> tuple[Span, ...]:
        """From each slot's first unit until the first slot had nothing left to do. The first unit warms up."""
        return tuple(steady(units, self._dry_s, self.started_s[slot] - begun_s) for slot, units in self.units.items())

    @property
    def _dry_s(self) -> float:
        return min(units[-1].at_s for units in self.units.values())


def steady(units: Sequence[Unit], until_s: float, start_up_s: float) -> Span:
    """The decisions of the second unit and on, of those that came back by `until_s`."""
    counted = [unit for unit in units if unit.at_s <= until_s]
    if len(counted) < 2:
        raise RunStopped("too few episodes to measure a steady state: give more --episodes")
    return Span(sum(unit.decisions for unit in counted[1:]), counted[-1].at_s - counted[0].at_s, start_up_s)


@dataclass(frozen=True)
class Order:
    """What is played: the oracle, an episode a seed, `episodes_per_unit` of them a shard."""

    scenario: str
    seeds: tuple[int, ...]
    frames: FrameFormat
    actors: int
    episodes_per_unit: int


class Quiet:
    """Hears everything, says nothing: what the runs inside have to tell is in what they measure."""

    def launch(self, *_: object) -> None: ...
    def counts(self, *_: object) -> None: ...
    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def done(self, *_: object) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Means:
    """What a run needs from outside: a pool, signals, someone to tell, and the place of the pool if that is watched."""

    make_pool: Callable[[Prepared], Pool]
    signals: Signals
    reporter: Reporter
    place: Place | None = None


def measure(order: Order, folder: Path, means: Means) -> tuple[Span, ...]:
    """Play a whole run into `folder`; one span an actor. Errors: `RunStopped` where the run did not complete."""
    config = RunConfig(
        scenarios=(order.scenario,),
        seeds=order.seeds,
        frames=order.frames,
        actors=order.actors,
        episodes_per_unit=order.episodes_per_unit,
        out=str(folder),
    )
    begun_s = time.perf_counter()
    prepared = prepare(config, open_storage(folder), grading=GradingConfig(grade="none"))
    pool = Stopwatch(means.make_pool(prepared))
    ready = start(prepared, prepared.folder.acquire())
    outcome = play(ready, pool, means.reporter, means.signals, means.place).outcome
    prepared.folder.finish(ready.lease)
    if outcome.state != "complete" or outcome.failed_episodes:
        raise RunStopped(f"the benchmark's run is {outcome.state}: {outcome.cause or outcome.first_failure}")
    return pool.spans(begun_s)
