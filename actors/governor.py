"""One limiter for a whole cluster: rate, requests in flight and budget of every actor that calls models.

governor = start_governor(limits)           # in the driver
limiter = GovernorHandle(governor, 16)      # in an actor: a `Limiter` like any other
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from uuid import uuid4

import ray
from ray import exceptions

from actors.nodes import alive_nodes
from actors.placement import away_from_gpus
from rollouts.calls.limiter import UNSENT, LocalLimiter
from rollouts.calls.limits import Limiter, LimiterStatus, Limits, Order, Outcome, Permit, Spending
from rollouts.errors import BudgetSpent, RunStopped

LOST = "the governor of model calls is lost: the same command goes on where it was"
_MOST_WAITING = 100_000
_LINGER_S = 0.05
_MOST_USES = 8
_KEPT_S = 10.0
Answer = Permit | BudgetSpent | RunStopped | None
Settled = tuple[Permit, Outcome]


class Governor:
    """Wraps the limiter of one process. A refusal is a value here, and so is a place in line that was left."""

    def __init__(self, limits: Limits) -> None:
        self._limiter = LocalLimiter(limits)
        self._unmetered = limits.only_in_flight
        self._in_line: dict[str, asyncio.Task[Permit]] = {}

    async def acquire(self, order: Order, ticket: str, settled: Settled | None = None, uses: int = 1) -> Answer:
        """Waits for its turn under the name `ticket`; None where that was withdrawn first. `settled` comes along.

        The permit is for up to `uses` requests where they are not counted and nobody else waits for a turn.
        """
        if settled is not None:
            await self._limiter.settle(*settled)
        place = self._in_line[ticket] = asyncio.ensure_future(self._limiter.acquire(order))
        try:
            permit = await place
        except (BudgetSpent, RunStopped) as stop:
            return stop
        except asyncio.CancelledError:
            return None
        finally:
            del self._in_line[ticket]
        free = self._unmetered and not self._limiter.status().waiting
        return replace(permit, uses=uses) if free else permit

    async def withdraw(self, ticket: str) -> None:
        """Whoever waits under that name leaves the line. A turn that is already given still reaches the caller."""
        if (place := self._in_line.get(ticket)) is not None:
            place.cancel()

    async def settle(self, permit: Permit, outcome: Outcome) -> None:
        await self._limiter.settle(permit, outcome)

    async def forget(self, holder: str) -> None:
        """A holder died: what it had in flight counts as spent, its places in line are free."""
        await self._limiter.forget(holder)

    async def status(self) -> LimiterStatus:
        return self._limiter.status()


class GovernorHandle:
    """A `Limiter` whose book is kept by the governor; one for each actor, in whose event loop it is used.

    At most `most_waiting` of its callers wait there at once, the others here: no more could be in flight anyway.
    """

    def __init__(self, governor: Any, most_waiting: int) -> None:
        self._governor = governor
        self._turn = asyncio.Semaphore(most_waiting)
        self._tickets = (f"{uuid4().hex}-{number}" for number in count())

    async def acquire(self, order: Order) -> Permit:
        """See `Limiter.acquire`; raises `RunStopped` also where the governor is gone."""
        return await self._acquire(order)

    async def settle(self, permit: Permit, outcome: Outcome) -> None:
        """See `Limiter.settle`. Not waited for: the governor takes messages of one sender in their order."""
        self._settle(permit, outcome)

    async def _acquire(self, order: Order, settled: Settled | None = None, uses: int = 1) -> Permit:
        async with self._turn:
            ticket = next(self._tickets)
            asked = asyncio.ensure_future(_answer(self._governor.acquire.remote(order, ticket, settled, uses)))
            try:
                answer = await asyncio.shield(asked)
            except asyncio.CancelledError:
                # Ray's own cancel would drop a turn that is given at the same moment: nobody would have it any more.
                asked.add_done_callback(self._give_back)
                self._withdraw(ticket)
                raise
        if isinstance(answer, Permit):
            return answer
        raise answer or asyncio.CancelledError

    def _settle(self, permit: Permit, outcome: Outcome) -> None:
        with suppress(exceptions.RayError):
            self._governor.settle.remote(permit, outcome)

    def _withdraw(self, ticket: str) -> None:
        with suppress(exceptions.RayError):
            self._governor.withdraw.remote(ticket)

    def _give_back(self, asked: asyncio.Future[Answer]) -> None:
        if not asked.cancelled() and asked.exception() is None and isinstance(permit := asked.result(), Permit):
            self._settle(permit, UNSENT)


class OneAtATime(GovernorHandle):
    """For a caller that makes one call after the other: a permit for several requests is kept between them, and what it
    came to is told with the next order. Each message costs actor and governor more than a millisecond together.

    It is kept for ten seconds, no longer than `linger_s` without a request, and not after one that was not answered.
    """

    def __init__(self, governor: Any, linger_s: float = _LINGER_S) -> None:
        super().__init__(governor, 1)
        self._linger_s = linger_s
        self._kept: Settled | None = None
        self._left = 0
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, order: Order) -> Permit:
        kept = self._take()
        if kept is not None and self._left and kept[0].lane == order.lane and time.monotonic() < self._until:
            self._spent = kept[1].spent or Spending()
            permit = kept[0]
        else:
            self._spent = Spending()
            permit = await self._acquire(order, kept, _MOST_USES)
            self._left, self._until = permit.uses, time.monotonic() + _KEPT_S
        self._left -= 1
        self._estimate = order.estimate
        return permit

    async def settle(self, permit: Permit, outcome: Outcome) -> None:
        if outcome.kind == "unsent":
            before = Outcome("answered", self._spent)
            self._settle(permit, outcome if self._spent == Spending() else before)
            return
        told = replace(outcome, spent=self._spent + (outcome.spent or self._estimate))
        if outcome.kind != "answered":
            self._settle(permit, told)
            return
        self._kept = (permit, told)
        self._timer = asyncio.get_running_loop().call_later(self._linger_s, self._settle_late)

    def _take(self) -> Settled | None:
        kept, self._kept = self._kept, None
        if self._timer is not None:
            self._timer.cancel()
        return kept

    def _settle_late(self) -> None:
        kept = self._take()
        if kept is not None:
            self._settle(*kept)


async def _answer(ref: Any) -> Answer:
    try:
        answer: Answer = await ref
    except exceptions.RayActorError:
        return RunStopped(LOST)
    return answer


_OPTIONS: dict[str, Any] = {"max_restarts": 0, "num_cpus": 0, "max_concurrency": _MOST_WAITING}
RemoteGovernor: Any = ray.remote(**_OPTIONS)(Governor)


def start_governor(limits: Limits) -> Any:
    """The run's governor. Returns at once."""
    return RemoteGovernor.options(**away_from_gpus(alive_nodes())).remote(limits)


@dataclass
class OpenGoverned:
    """For a worker that makes one call at a time: its limiter, whose book the governor keeps. Sent there with the
    handle that it has by then."""

    handle: Any = None

    def __call__(self) -> Limiter:
        assert self.handle is not None, "calls before the run's limits are known"
        return OneAtATime(self.handle)


class GovernedRun:
    """The driver's side of a run's governor (`RunLimiter`). `opener` is for the workers that play."""

    def __init__(self) -> None:
        self.opener = OpenGoverned()
        self._known: LimiterStatus | None = None

    @property
    def handle(self) -> Any:
        """None where it was not begun."""
        return self.opener.handle

    def begin(self, limits: Limits) -> None:
        if self.handle is None:
            self._known = LimiterStatus(0, 0, 0, limits.spent, (), None)
            self.opener.handle = start_governor(limits)

    def forget(self, holder: str) -> None:
        """A worker was lost: what it had in flight counts as spent, and holds up nobody."""
        if self.handle is not None:
            with suppress(exceptions.RayError):
                self.handle.forget.remote(holder)

    def status(self, patience_s: float = 0.0) -> LimiterStatus | None:
        """What the governor last said; asks it again."""
        if self.handle is None:
            return None
        told = threading.Event()

        def keep(answer: Future[LimiterStatus]) -> None:
            if answer.exception() is None:
                self._known = answer.result()
            told.set()

        self.handle.status.remote().future().add_done_callback(keep)
        told.wait(patience_s)
        return self._known
