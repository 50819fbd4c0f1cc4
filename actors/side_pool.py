"""A pool of lanes in Ray actors: slot s is a lane of actor s modulo the number of actors.

All lanes of an actor start and die together. An actor is asked for its pulse while it has something to do; the answer
counts as progress of all its lanes, so that the scheduler's watchdog ends one that hangs.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import ray
from ray import exceptions

from actors.nodes import alive_nodes
from actors.placement import away_from_gpus
from actors.ray_pool import CLOSE_S
from actors.ray_reasons import why
from rollouts.pools.lanes import MakeAsyncPlayer, told
from rollouts.pools.pool import Event, Failure, Lost, Progressed, Started, StartFailed, Task
from rollouts.records import SideReport

Question = Literal["prepare", "play", "pulse"]
Lane = Literal["starting", "idle", "busy"]


@dataclass(frozen=True, slots=True)
class Staff:
    """`actors` processes of the class `remote` (wrapped by Ray), each with so many `lanes`.

    `governor` says when models may be called, None where none is; at most `in_flight` calls are under way at once.
    """

    remote: Any
    actors: int
    lanes: int
    governor: Any = None
    in_flight: int = 16


@dataclass(slots=True)
class _Actor:
    """One life of an actor; `name` is what the governor knows it by. `lanes` are those that are in use, by slot."""

    handle: Any
    life: int
    name: str
    ready: str | None = None
    lanes: dict[int, Lane] = field(default_factory=dict)
    asked_at: float = 0.0
    asking: bool = False
    pulses: int = 0

    @property
    def busy(self) -> list[int]:
        return [slot for slot, lane in self.lanes.items() if lane == "busy"]


@dataclass(frozen=True, slots=True)
class _Answer:
    number: int
    life: int
    question: Question
    slot: int
    future: Future[Any]


class RayLanes:
    """See the module's text. Pulses are felt every `look_every_s`."""

    def __init__(self, make: MakeAsyncPlayer, staff: Staff, *, look_every_s: float = 5.0) -> None:
        self.slots = staff.actors * staff.lanes
        self._make = make
        self._staff = staff
        self._look_every_s = look_every_s
        self._actors: dict[int, _Actor] = {}
        self._lives = 0
        self._said: list[Started | Lost] = []
        self._answers: queue.SimpleQueue[_Answer | None] = queue.SimpleQueue()

    def start(self, slot: int) -> None:
        number = slot % self._staff.actors
        if number not in self._actors:
            self._actors[number] = self._new_actor(number)
        actor = self._actors[number]
        assert slot not in actor.lanes, f"lane {slot} is there"
        if actor.ready is None:
            actor.lanes[slot] = "starting"
        else:
            actor.lanes[slot] = "idle"
            self._said.append(Started(slot, actor.ready))

    def send(self, slot: int, task: Task) -> None:
        actor = self._actors[slot % self._staff.actors]
        assert actor.lanes[slot] == "idle", f"lane {slot} is {actor.lanes[slot]}"
        if not actor.busy:
            actor.asked_at = time.monotonic()
        actor.lanes[slot] = "busy"
        self._ask(actor, slot, "play", actor.handle.play.remote(task))

    def kill(self, slot: int) -> None:
        """An idle lane is given up; one that is busy or not ready in time takes its actor along: that one hangs."""
        self._said = [event for event in self._said if event.slot != slot]
        actor = self._actors.get(slot % self._staff.actors)
        lane = actor.lanes.pop(slot, None) if actor is not None else None
        if actor is not None and lane not in ("idle", None):
            self._said += self._lose(actor, "its actor was ended, since another lane of it hung", False)

    def wait(self, timeout_s: float) -> Sequence[Event]:
        self._feel_pulses()
        said, self._said = self._said, []
        answers: list[_Answer | None] = []
        with suppress(queue.Empty):
            answers.append(self._answers.get_nowait() if said else self._answers.get(timeout=timeout_s))
            while True:
                answers.append(self._answers.get_nowait())
        return [*said, *(event for answer in answers if answer is not None for event in self._read(answer))]

    def wake(self) -> None:
        """End a `wait` that is under way; for other threads."""
        self._answers.put(None)

    def close(self) -> None:
        """Actors that have nothing to do close their connections, all are ended."""
        actors, self._actors = list(self._actors.values()), {}
        goodbyes = [actor.handle.close.remote() for actor in actors if actor.ready and not actor.busy]
        with suppress(exceptions.RayError):
            if goodbyes:
                ray.wait(goodbyes, num_returns=len(goodbyes), timeout=CLOSE_S, fetch_local=False)
        for actor in actors:
            self._end(actor)

    def _new_actor(self, number: int) -> _Actor:
        staff, self._lives = self._staff, self._lives + 1
        handle = staff.remote.options(**away_from_gpus(alive_nodes())).remote()
        actor = _Actor(handle, self._lives, f"actor-{handle._actor_id.hex()[:16]}")
        ref = handle.prepare.remote(actor.name, self._make, staff.governor, staff.in_flight)
        self._ask(actor, number, "prepare", ref)
        return actor

    def _ask(self, actor: _Actor, slot: int, question: Question, ref: Any) -> None:
        number, life = slot % self._staff.actors, actor.life
        ref.future().add_done_callback(lambda future: self._answers.put(_Answer(number, life, question, slot, future)))

    def _feel_pulses(self) -> None:
        now = time.monotonic()
        for number, actor in self._actors.items():
            if actor.busy and not actor.asking and now - actor.asked_at >= self._look_every_s:
                actor.asking, actor.asked_at = True, now
                self._ask(actor, number, "pulse", actor.handle.pulse.remote())

    def _read(self, answer: _Answer) -> list[Event]:
        """What an answer means; nothing where it comes from an earlier life."""
        actor = self._actors.get(answer.number)
        if actor is None or actor.life != answer.life:
            return []
        error = answer.future.exception()
        if error is not None:
            preempted = isinstance(error, exceptions.RayActorError) and error.preempted
            return list(self._lose(actor, why(error), preempted))
        if answer.question == "pulse":
            actor.asking, actor.pulses = False, actor.pulses + 1
            return [Progressed(slot, actor.pulses) for slot in actor.busy]
        if answer.question == "prepare":
            return self._prepared(actor, answer.future.result())
        return self._done(actor, answer.slot, answer.future.result())

    def _prepared(self, actor: _Actor, result: str | Failure) -> list[Event]:
        waiting = [slot for slot, lane in actor.lanes.items() if lane == "starting"]
        if isinstance(result, Failure):
            self._drop(actor)
            return [StartFailed(slot, result) for slot in waiting]
        actor.ready = result
        actor.lanes.update(dict.fromkeys(waiting, "idle"))
        return [Started(slot, result) for slot in waiting]

    def _done(self, actor: _Actor, slot: int, result: SideReport | Failure) -> list[Event]:
        if actor.lanes.get(slot) != "busy":
            return []
        actor.lanes[slot] = "idle"
        return [told(slot, result)]

    def _lose(self, actor: _Actor, cause: str, preempted: bool) -> list[Lost]:
        self._drop(actor)
        return [Lost(slot, cause, preempted) for slot in actor.lanes]

    def _drop(self, actor: _Actor) -> None:
        self._actors = {number: other for number, other in self._actors.items() if other is not actor}
        self._end(actor)
        if self._staff.governor is not None:
            with suppress(exceptions.RayError):
                self._staff.governor.forget.remote(actor.name)

    def _end(self, actor: _Actor) -> None:
        with suppress(exceptions.RayError):
            ray.kill(actor.handle)
