"""A pool of Ray actors. The driver owns them all; none restarts by itself, since the scheduler decides about that.

Answers arrive through callbacks in a queue, so that waiting costs the same for 4 actors and for 1,000, and nothing
here blocks on Ray.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import ray
from ray import exceptions

from actors.capacity import Share
from actors.placement import Patience, Placement
from actors.ray_reasons import why
from actors.rollout_actor import WATCH, Played, Ready, RemoteRolloutActor
from rollouts.pools.players import MakePlayer
from rollouts.pools.pool import (
    Event,
    Failure,
    Finished,
    Lost,
    Noted,
    Progressed,
    Started,
    StartFailed,
    Task,
    TaskFailed,
    Waiting,
)

CLOSE_S = 1.0
LOOKS = 10
"""How often the busy are gone through in the time in which each is asked once."""
_UNREACHABLE = (exceptions.ActorUnavailableError, exceptions.NodeDiedError)
Question = Literal["prepare", "play", "progress"]
TAKEN_ALONG = "its process was ended, since another game in it hung or never began"


@dataclass(slots=True)
class _Process:
    """One Ray actor, with those of its seats that are taken by slots. One that is `closed` gets no more of them. It is
    `placed` once a node has it (of a Ray of our own: always)."""

    handle: Any
    name: str
    seats: int
    placed: bool
    taken: dict[int, int] = field(default_factory=dict)
    closed: bool = False

    @property
    def free(self) -> list[int]:
        return [] if self.closed else [seat for seat in range(self.seats) if seat not in self.taken]


@dataclass(slots=True)
class _Actor:
    """One life in a slot. `asked_at` is when it was last given work or asked for its progress; `next` is a task that
    waits for it to be ready."""

    process: _Process
    seat: int
    life: int
    name: str
    state: Literal["starting", "idle", "playing"] = "starting"
    asking: bool = False
    asked_at: float = 0.0
    next: Task | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    slot: int
    life: int
    question: Question
    future: Future[Any]


class RayPool:
    """`slots` actors, each with `share` of a node, that play what `make` makes; as many as `together` live in one
    process, which is right for those that do little but wait.

    `most_episodes` and `most_mb` (MiB, with the engine) say when an actor is worn out; `look_every_s` how often a busy
    one is asked for its progress. `on_close` runs after the actors have ended; `forget` is told the name of each that
    is lost or ended. `placement` says where on a cluster that is joined actors may live; as that becomes larger so do
    the slots, up to `most`.
    """

    def __init__(  # noqa: PLR0913  most have defaults
        self,
        make: MakePlayer,
        slots: int,
        share: Share,
        most_episodes: int | None = None,
        most_mb: int | None = None,
        *,
        together: int = 1,
        placement: Placement | None = None,
        most: int | None = None,
        look_every_s: float = 5.0,
        on_close: Callable[[], None] | None = None,
        forget: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self.slots = slots
        self._most = most
        self._share = share
        self._placement = placement
        self._patience = placement.patience() if placement is not None else None
        self._make = make
        self._worn = (most_episodes, most_mb)
        self._together = together
        self._look_every_s = look_every_s
        self._look_at = self._measure_at = 0.0
        self._on_close = on_close
        self._forget = forget
        self._actors: dict[int, _Actor] = {}
        self._processes: list[_Process] = []
        self._lives = 0
        self._said: list[Event] = []
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()

    def start(self, slot: int) -> None:
        assert slot not in self._actors, f"slot {slot} has an actor"
        process = next((each for each in self._processes if each.free), None)
        self._sit_down(slot, process or self._new_process(self._seats_missing(), self._share.cpus))

    def send(self, slot: int, task: Task) -> None:
        actor = self._actors[slot]
        assert actor.state == "idle", f"slot {slot} is {actor.state}"
        if task.alone and actor.process.seats > 1:
            self._stand_up(slot)
            actor = self._sit_down(slot, self._new_process(1, cpus=0))  # the others have all that there is
            actor.next = task
            return
        actor.state, actor.asked_at = "playing", time.monotonic()
        self._ask(slot, "play", actor.process.handle.play.remote(actor.seat, task))

    def kill(self, slot: int) -> None:
        """An idle actor gives its engine back and ends; any other is ended, with all in its process."""
        self._said = [event for event in self._said if isinstance(event, Noted) or event.slot != slot]
        actor = self._actors.get(slot)
        if actor is None:
            return
        if not actor.process.placed and len(actor.process.taken) > 1:
            self._stand_up(slot)  # the others still wait
        elif actor.state == "idle":
            actor.process.closed = True  # it is worn out, or not wanted any more
            self._stand_up(slot)
        else:
            others = [other for other in actor.process.taken.values() if other != slot]
            self._end(actor.process)
            self._said += [Lost(other, TAKEN_ALONG, preempted=True) for other in others]

    def wait(self, timeout_s: float) -> Sequence[Event]:
        self._look_around()
        said, self._said = self._said, []
        answers: list[_Answer] = []
        with suppress(queue.Empty):
            answers.append(self._answers.get_nowait() if said else self._answers.get(timeout=timeout_s))
            while True:
                answers.append(self._answers.get_nowait())
        return [*said, *(event for answer in answers for event in self._read(answer))]

    def close(self) -> None:
        goodbyes = [self._goodbye(actor) for actor in self._actors.values() if actor.state == "idle"]
        busy = [actor.process for actor in self._actors.values() if actor.state != "idle"]
        processes, self._processes, self._actors = self._processes, [], {}
        with suppress(exceptions.RayError):
            if goodbyes:
                ray.wait(goodbyes, num_returns=len(goodbyes), timeout=CLOSE_S, fetch_local=False)
        for process in busy:
            _kill(process)
        processes.clear()  # those that nobody refers to end by themselves
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    # Processes and seats

    def _seats_missing(self) -> int:
        """For a new process: so many as may live together, but not more than there will be slots."""
        there = sum(process.seats for process in self._processes if not process.closed)
        return max(1, min(self._together, self.slots - there))

    def _new_process(self, seats: int, cpus: float) -> _Process:
        gpus, worn = self._share.gpus, [limit and limit * seats for limit in self._worn]
        options = {"num_cpus": cpus * seats, "num_gpus": gpus * seats, "max_concurrency": seats}
        where = self._placement.options() if self._placement is not None else {}
        handle = RemoteRolloutActor.options(**options, **where).remote(gpus == 0, *worn)
        process = _Process(handle, f"actor-{handle._actor_id.hex()[:16]}", seats, placed=self._placement is None)
        self._processes.append(process)
        if self._placement is not None:
            handle.__ray_ready__.remote().future().add_done_callback(lambda _: setattr(process, "placed", True))
        return process

    def _sit_down(self, slot: int, process: _Process) -> _Actor:
        seat = process.free[0]
        process.taken[seat] = slot
        name = process.name if process.seats == 1 else f"{process.name}-{seat}"
        actor = self._actors[slot] = _Actor(process, seat, self._lives, name)
        self._lives += 1
        self._ask(slot, "prepare", process.handle.prepare.remote(seat, name, self._make))
        return actor

    def _stand_up(self, slot: int) -> None:
        """An idle actor leaves; a process that nobody sits in ends when nobody refers to it."""
        actor = self._actors.pop(slot)
        with suppress(exceptions.RayError):
            self._goodbye(actor)
        self._forget(actor.name)
        del actor.process.taken[actor.seat]
        if not actor.process.taken:
            self._processes.remove(actor.process)

    def _end(self, process: _Process) -> None:
        """At once, with all who sit there."""
        self._processes = [each for each in self._processes if each is not process]
        for slot in process.taken.values():
            self._forget(self._actors.pop(slot).name)
        _kill(process)

    def _goodbye(self, actor: _Actor) -> Any:
        return actor.process.handle.close.remote(actor.seat)

    # Questions and answers

    def _ask(self, slot: int, question: Question, ref: Any) -> None:
        life = self._actors[slot].life
        ref.future().add_done_callback(lambda future: self._answers.put(_Answer(slot, life, question, future)))

    def _look_around(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._look_every_s / LOOKS
        self._look_at_the_busy(now)
        if self._placement is not None and self._patience is not None:
            self._look_at_the_waiting(self._patience)
        if self._placement is not None and self._most is not None and now >= self._measure_at:
            self._measure_at = now + self._look_every_s
            self.slots = max(self.slots, min(self._placement.room(), self._most))

    def _look_at_the_waiting(self, patience: Patience) -> None:
        waiting = [slot for slot, actor in self._actors.items() if not actor.process.placed]
        self._said += [Waiting(slot) for slot in waiting]
        match patience.look(len(waiting), len(self._actors) - len(waiting)):
            case Noted() as note:
                self._said.append(note)
            case Failure() as failure:
                self._said += [StartFailed(slot, failure) for slot in waiting]

    def _look_at_the_busy(self, now: float) -> None:
        for slot, actor in self._actors.items():
            if actor.state == "playing" and not actor.asking and now - actor.asked_at >= self._look_every_s:
                actor.asking, actor.asked_at = True, now
                progress = actor.process.handle.progress.options(concurrency_group=WATCH)
                self._ask(slot, "progress", progress.remote(actor.seat))

    def _read(self, answer: _Answer) -> list[Event]:
        """What an answer means; nothing where it comes from an earlier life of the slot."""
        actor = self._actors.get(answer.slot)
        if actor is None or actor.life != answer.life:
            return []
        error = answer.future.exception()
        if answer.question == "progress":
            actor.asking = False
            told = error is None and actor.state == "playing"
            return [Progressed(answer.slot, answer.future.result())] if told else []
        return self._told(answer.slot, actor, answer.future.result()) if error is None else self._lost(actor, error)

    def _told(self, slot: int, actor: _Actor, value: Ready | Played | Failure) -> list[Event]:
        was, actor.state = actor.state, "idle"
        task, actor.next = actor.next, None
        match value:
            case Ready() if task is not None:
                self.send(slot, task)
                return []
            case Ready(name):
                return [Started(slot, name)]
            case Played(report, spent):
                return [Finished(slot, report, spent)]
            case Failure() if was == "starting":
                self._stand_up(slot)
                return [Lost(slot, value.cause) if task is not None else StartFailed(slot, value)]
            case Failure():
                return [TaskFailed(slot, value)]

    def _lost(self, actor: _Actor, error: BaseException) -> list[Event]:
        """Whatever Ray says instead of an answer: the process is of no use any more, to nobody in it."""
        slots = list(actor.process.taken.values())
        self._end(actor.process)
        preempted = isinstance(error, exceptions.RayActorError) and error.preempted
        return [Lost(slot, why(error), preempted, unreachable=isinstance(error, _UNREACHABLE)) for slot in slots]


def _kill(process: _Process) -> None:
    with suppress(exceptions.RayError):
        ray.kill(process.handle)
