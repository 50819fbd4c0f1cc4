"""The limiter of one process: waiting callers in order, woken as the book of calls lets them go.

Callers may sit in several event loops and threads. The same class does the waiting inside a cluster's governor.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from rollouts.calls.governing import NEVER, Blocked, CallBook
from rollouts.calls.limits import LimiterStatus, Limits, Order, Outcome, Permit
from rollouts.errors import RolloutsError

Clock = Callable[[], float]
SHORTEST_WAIT_S = 0.001
UNSENT = Outcome("unsent")


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    number: int
    order: Order
    loop: asyncio.AbstractEventLoop
    turn: asyncio.Future[Permit]


class LocalLimiter:
    """First come, first served within each lane (`Order.lane`); a lane that has to wait holds up no other.

    `clock` gives seconds and never goes back.
    """

    def __init__(self, limits: Limits, clock: Clock = time.monotonic) -> None:
        self._book = CallBook(limits)
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._lanes: dict[str, deque[_Waiter]] = {}
        self._timers: dict[asyncio.AbstractEventLoop, asyncio.TimerHandle] = {}

    async def acquire(self, order: Order) -> Permit:
        """See `Limiter.acquire`. A caller that is cancelled while waiting leaves the line."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(next(self._numbers), order, loop, loop.create_future())
        with self._lock:
            self._lanes.setdefault(order.lane, deque()).append(waiter)
        self._serve()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            self._leave(waiter)
            raise

    async def settle(self, permit: Permit, outcome: Outcome) -> None:
        """See `Limiter.settle`."""
        with self._lock:
            self._book.settle(permit, outcome, self._clock())
        self._serve()

    async def forget(self, holder: str) -> None:
        """A holder died: take back its permits and its places in line."""
        with self._lock:
            self._book.forget(holder)
            for line in self._lanes.values():
                for waiter in [w for w in line if w.order.holder == holder]:
                    line.remove(waiter)
        self._serve()

    def status(self) -> LimiterStatus:
        """A look at the moment; never waits."""
        with self._lock:
            return self._book.status(sum(len(line) for line in self._lanes.values()))

    def _serve(self) -> None:
        """Let go whoever may go, and come back when the first of the others may."""
        with self._lock:
            until = self._let_go()
        self._come_back(until)

    def _let_go(self) -> float:
        """Oldest first. Returns when to look again."""
        blocked: dict[str, float] = {}
        while (line := self._oldest_line(blocked)) is not None:
            waiter = line[0]
            try:
                answer = self._book.ask(waiter.order, self._clock())
            except RolloutsError as stop:
                line.popleft()
                _tell(waiter, _refuse, waiter, stop)
                continue
            if isinstance(answer, Blocked):
                blocked[waiter.order.lane] = answer.until
                continue
            line.popleft()
            if not _tell(waiter, self._hand_over, waiter, answer):
                self._book.settle(answer, UNSENT, self._clock())
        return min(blocked.values(), default=NEVER)

    def _oldest_line(self, blocked: dict[str, float]) -> deque[_Waiter] | None:
        lines = [line for lane, line in self._lanes.items() if line and lane not in blocked]
        return min(lines, key=lambda line: line[0].number, default=None)

    def _come_back(self, until: float) -> None:
        """One timer a loop: another loop's may be gone before it fires."""
        loop = asyncio.get_running_loop()
        with self._lock:
            timer = self._timers.pop(loop, None)
            self._timers = {other: t for other, t in self._timers.items() if not other.is_closed()}
            if timer is not None:
                timer.cancel()
            if until < NEVER:
                self._timers[loop] = loop.call_later(max(until - self._clock(), SHORTEST_WAIT_S), self._serve)

    def _hand_over(self, waiter: _Waiter, permit: Permit) -> None:
        if waiter.turn.done():
            self._give_back(permit)
        else:
            waiter.turn.set_result(permit)

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock, suppress(ValueError):
            self._lanes[waiter.order.lane].remove(waiter)
        turn = waiter.turn
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            self._give_back(turn.result())

    def _give_back(self, permit: Permit) -> None:
        with self._lock:
            self._book.settle(permit, UNSENT, self._clock())
        self._serve()


def _refuse(waiter: _Waiter, stop: RolloutsError) -> None:
    if not waiter.turn.done():
        waiter.turn.set_exception(stop)


def _tell(waiter: _Waiter, callback: Callable[..., None], *arguments: object) -> bool:
    """Run `callback` in the waiter's own loop; False where that loop is gone."""
    try:
        waiter.loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        return False
    return True
