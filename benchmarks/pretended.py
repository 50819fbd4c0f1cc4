"""Actors that only pretend: each answers as `RolloutActor` would, after as long as a unit is said to take.

    with pretended_actors(uri, run_id, unit_s=1.0):
        pool = RayPool(...)          # the real one; no Ray runs

They all live in one process of their own, as actors live elsewhere: it keeps the time, puts two small files where a
worker would stage its shards, and answers. Some lose their "process" instead, as Ray tells it.
"""

from __future__ import annotations

import heapq
import itertools
import multiprocessing
import random
import threading
import time
from array import array
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ray import exceptions

from actors.rollout_actor import Played, Ready
from rollouts.pools.pool import Task
from rollouts.records import ShardFile, UnitReport
from rollouts.run.run_folder import STAGING
from rollouts.store.storage import open_storage

SHARD = b"a shard that nobody reads"
DECISIONS = 100


@dataclass(frozen=True, slots=True)
class Work:
    """Question `number` was asked: answer at `due_s` (monotonic) by staging `task`, or by a death."""

    number: int
    due_s: float
    task: Task
    dies: bool


def _report(task: Task) -> UnitReport:
    unit = task.unit
    name, digest = f"{unit.part}.parquet", "0" * 64
    return UnitReport(
        unit=unit.number,
        attempt=task.attempt,
        steps=ShardFile(name, DECISIONS, len(SHARD), digest),
        episodes=ShardFile(name, len(unit.episodes), len(SHARD), digest),
        n_decisions=DECISIONS,
        n_out_of_schema=0,
        failures=(None,) * len(unit.episodes),
    )


def _answer_when_due(line: Connection, uri: str, run_id: str) -> None:
    """The other process: until None comes along the line."""
    storage, waiting = open_storage(uri), list[tuple[float, int, Work]]()
    while True:
        patience_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        if line.poll(patience_s):
            work: Work | None = line.recv()
            if work is None:
                return
            heapq.heappush(waiting, (work.due_s, work.number, work))
        while waiting and waiting[0][0] <= time.monotonic():
            work = heapq.heappop(waiting)[2]
            if work.dies:
                line.send((work.number, None))
                continue
            for table in ("steps", "episodes"):
                staged = f"{run_id}/{STAGING}/{work.task.unit.part}/{work.task.attempt}/{table}.staged"
                storage.write_bytes(staged, SHARD)
            line.send((work.number, Played(_report(work.task), None)))


class Elsewhere:
    """The line to the other process. `idle_s` has, for each task, how long its actor had had nothing to do before;
    `deaths` counts those that ended with their actor's."""

    def __init__(self, line: Connection, unit_s: float, deaths: float, seed: int = 0) -> None:
        self._line = line
        self._unit_s = unit_s
        self._deaths = deaths
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._answered_at: dict[str, float] = {}
        self.idle_s = array("d")
        self.deaths = 0
        threading.Thread(target=self._hear, name="answers", daemon=True).start()

    def ask(self, actor: str, task: Task) -> Future[Any]:
        """Its answer, between half and one and a half times a unit's time from now."""
        now, number, future = time.monotonic(), next(self._numbers), Future[Any]()
        if actor in self._answered_at:
            self.idle_s.append(now - self._answered_at.pop(actor))
        future.add_done_callback(lambda _: self._answered_at.__setitem__(actor, time.monotonic()))
        self._asked[number] = future
        due_s = now + self._unit_s * self._random.uniform(0.5, 1.5)
        self._line.send(Work(number, due_s, task, self._random.random() < self._deaths))
        return future

    def _hear(self) -> None:
        while True:
            try:
                number, played = self._line.recv()
            except (EOFError, OSError):
                return
            if played is None:
                self.deaths += 1
                self._asked.pop(number).set_exception(exceptions.RayActorError(error_msg="it only pretended to live"))
            else:
                self._asked.pop(number).set_result(played)


class _Method:
    """What `handle.method` is: `remote` gives a reference, which has a `future`."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def options(self, **_: object) -> _Method:
        return self

    def remote(self, *args: Any) -> Any:
        future = self._answer(*args)
        return SimpleNamespace(future=lambda: future)


class _Handle:
    """An actor's handle, as the pool uses it."""

    def __init__(self, number: int, elsewhere: Elsewhere) -> None:
        self._actor_id = number.to_bytes(8, "big")
        self.prepare = _Method(lambda _seat, name, _make: _at_once(Ready(name)))
        self.play = _Method(lambda _seat, task: elsewhere.ask(self._actor_id.hex(), task))
        self.progress = _Method(lambda _seat: _at_once(DECISIONS))
        self.close = _Method(lambda _seat: _at_once(None))


def _at_once(value: object) -> Future[Any]:
    future = Future[Any]()
    future.set_result(value)
    return future


@contextmanager
def pretended_actors(uri: str, run_id: str, unit_s: float, deaths: float = 0.0) -> Iterator[Elsewhere]:
    """Inside, a `RayPool` makes pretended actors; `deaths` is the share of tasks that end with their actor's."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_answer_when_due, args=(there, uri, run_id), daemon=True)
    process.start()
    elsewhere, numbers = Elsewhere(here, unit_s, deaths), itertools.count()
    remote = SimpleNamespace(remote=lambda *_: _Handle(next(numbers), elsewhere))
    ray = SimpleNamespace(kill=lambda _handle: None, wait=lambda *_, **__: None)
    actor = SimpleNamespace(options=lambda **_: remote)
    try:
        with mock.patch("actors.ray_pool.ray", ray), mock.patch("actors.ray_pool.RemoteRolloutActor", actor):
            yield elsewhere
    finally:
        here.send(None)
        process.join()
        here.close()
