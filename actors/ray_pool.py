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
from dataclasses import dataclass
from typing import Any, Literal

import ray
from ray import exceptions

from actors.capacity import Share
from actors.rollout_actor import WATCH, Played, Ready, RemoteRolloutActor
from rollouts.pools.players import MakePlayer
from rollouts.pools.pool import Event, Failure, Finished, Lost, Progressed, Started, StartFailed, Task, TaskFailed
from rollouts.scrub import describe_error, scrub

CLOSE_S = 1.0
_UNREACHABLE = (exceptions.ActorUnavailableError, exceptions.NodeDiedError)
_CREATION = "error raised in its creation task"
Question = Literal["prepare", "play", "progress"]


@dataclass(slots=True)
class _Actor:
    """One life in a slot. `asked_at` is when it was last given work or asked for its progress."""

    handle: Any
    life: int
    state: Literal["starting", "idle", "playing"] = "starting"
    asking: bool = False
    asked_at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Answer:
    slot: int
    life: int
    question: Question
    future: Future[Any]


class RayPool:
    """`slots` actors, each with `share` of a node, that play what `make` makes.

    `most_episodes` and `most_mb` (MiB, with the engine) say when an actor's process is worn out; `look_every_s` how
    often a busy actor is asked for its progress. `on_close` runs after the actors have ended.
    """

    def __init__(  # noqa: PLR0913  the last four have defaults
        self,
        make: MakePlayer,
        slots: int,
        share: Share,
        most_episodes: int | None = None,
        most_mb: int | None = None,
        *,
        look_every_s: float = 5.0,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.slots = slots
        self._share = share
        self._order = (make, most_episodes, most_mb)
        self._look_every_s = look_every_s
        self._on_close = on_close
        self._actors: dict[int, _Actor] = {}
        self._lives = 0
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()

    def start(self, slot: int) -> None:
        assert slot not in self._actors, f"slot {slot} has an actor"
        share = self._share
        handle = RemoteRolloutActor.options(num_cpus=share.cpus, num_gpus=share.gpus).remote(share.gpus == 0)
        self._actors[slot] = _Actor(handle, self._lives)
        self._lives += 1
        self._ask(slot, "prepare", handle.prepare.remote(f"actor-{handle._actor_id.hex()[:16]}", *self._order))

    def send(self, slot: int, task: Task) -> None:
        actor = self._actors[slot]
        assert actor.state == "idle", f"slot {slot} is {actor.state}"
        actor.state, actor.asked_at = "playing", time.monotonic()
        self._ask(slot, "play", actor.handle.play.remote(task))

    def kill(self, slot: int) -> None:
        """An idle actor gives its engine back and ends; any other is ended."""
        actor = self._actors.pop(slot, None)
        if actor is not None:
            _end(actor)

    def wait(self, timeout_s: float) -> Sequence[Event]:
        self._look_at_the_busy()
        answers: list[_Answer] = []
        with suppress(queue.Empty):
            answers.append(self._answers.get(timeout=timeout_s))
            while True:
                answers.append(self._answers.get_nowait())
        return [event for answer in answers if (event := self._read(answer)) is not None]

    def close(self) -> None:
        actors, self._actors = list(self._actors.values()), {}
        goodbyes = [goodbye for actor in actors if (goodbye := _end(actor)) is not None]
        if goodbyes:
            with suppress(exceptions.RayError):
                ray.wait(goodbyes, num_returns=len(goodbyes), timeout=CLOSE_S, fetch_local=False)
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def _ask(self, slot: int, question: Question, ref: Any) -> None:
        life = self._actors[slot].life
        ref.future().add_done_callback(lambda future: self._answers.put(_Answer(slot, life, question, future)))

    def _look_at_the_busy(self) -> None:
        now = time.monotonic()
        for slot, actor in self._actors.items():
            if actor.state == "playing" and not actor.asking and now - actor.asked_at >= self._look_every_s:
                actor.asking, actor.asked_at = True, now
                self._ask(slot, "progress", actor.handle.progress.options(concurrency_group=WATCH).remote())

    def _read(self, answer: _Answer) -> Event | None:
        """What an answer means; nothing where it comes from an earlier life of the slot."""
        actor = self._actors.get(answer.slot)
        if actor is None or actor.life != answer.life:
            return None
        error = answer.future.exception()
        if answer.question == "progress":
            actor.asking = False
            told = error is None and actor.state == "playing"
            return Progressed(answer.slot, answer.future.result()) if told else None
        return (
            self._told(answer.slot, actor, answer.future.result()) if error is None else self._lost(answer.slot, error)
        )

    def _told(self, slot: int, actor: _Actor, value: Ready | Played | Failure) -> Event:
        was, actor.state = actor.state, "idle"
        match value:
            case Ready(name):
                return Started(slot, name)
            case Played(report, spent):
                return Finished(slot, report, spent)
            case Failure() if was == "starting":
                self.kill(slot)
                return StartFailed(slot, value)
            case Failure():
                return TaskFailed(slot, value)

    def _lost(self, slot: int, error: BaseException) -> Lost:
        """Whatever Ray says instead of an answer: the actor is of no use any more."""
        with suppress(exceptions.RayError):
            ray.kill(self._actors.pop(slot).handle)
        preempted = isinstance(error, exceptions.RayActorError) and error.preempted
        return Lost(slot, why(error), preempted, unreachable=isinstance(error, _UNREACHABLE))


def why(error: BaseException) -> str:
    """Ray's reason in one line, without its ids and tables."""
    if isinstance(error, exceptions.RayTaskError) and error.cause is not None:
        return describe_error(error.cause)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and _CREATION in lines[0]:
        return scrub(f"the actor could not be made: {lines[-1]}")
    reason = next((line for line in lines if line.startswith("The actor is dead because")), lines[0] if lines else "")
    return scrub(reason or type(error).__name__)


def _end(actor: _Actor) -> Any:
    """What to wait for while an idle actor gives its engine back (it ends when nobody refers to it); else None."""
    with suppress(exceptions.RayError):
        if actor.state == "idle":
            return actor.handle.close.remote()
        ray.kill(actor.handle)
    return None
