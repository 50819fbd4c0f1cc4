"""The book of one run's model calls: who may send now, what was spent, when to stop.

Pure: no clock, no loop, no Ray. `LocalLimiter` drives it within a process; on a cluster one actor does for all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from rollouts.calls.limits import LimiterStatus, Limits, Order, Outcome, Permit, Spending
from rollouts.calls.pacing import MinuteWindow, Pace, Taken
from rollouts.errors import BudgetSpent, RunStopped
from rollouts.naming import counted

GRACE_S = 30.0
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Blocked:
    """Not now. Ask again at `until` (infinite: when a permit is settled)."""

    until: float


@dataclass(slots=True)
class _Lane:
    pace: Pace
    in_flight: int = 0
    lessons: set[str] = field(default_factory=set)
    refusals: int = 0
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class _Open:
    permit: Permit
    order: Order
    granted_at: float
    requests: Taken
    tokens: Taken


class CallBook:
    """Grants permits and takes outcomes. Every `now` is a time in seconds of one clock that never goes back."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lanes: dict[str, _Lane] = {}
        self._open: dict[int, _Open] = {}
        self._numbers = count(1)
        self._requests = MinuteWindow(limits.requests_per_minute)
        self._tokens = MinuteWindow(limits.tokens_per_minute)
        self._spent = limits.spent
        self._reserved = Spending()
        self._most = 0
        self._used_up: str | None = None

    def ask(self, order: Order, now: float) -> Permit | Blocked:
        """A permit, or when to ask again.

        Raises `BudgetSpent`, from then on for everybody, and `RunStopped`, from then on for the lane.
        """
        self._take_back_overdue(now)
        lane = self._lane(order.lane)
        self._raise_if_stopped(lane)
        if len(self._open) >= self._limits.in_flight or lane.in_flight >= int(lane.pace.window):
            return Blocked(self._first_overdue())
        until = self._open_at(order, lane, now)
        if until > now:
            return Blocked(until)
        if not self._affordable(order):
            return Blocked(self._first_overdue())
        return self._grant(order, lane, now)

    def settle(self, permit: Permit, outcome: Outcome, now: float) -> None:
        """Close a permit. One that is no longer open (taken back, forgotten) changes nothing."""
        was = self._open.get(permit.number)
        if was is None:
            return
        self._close(was, self._spent_by(was, outcome))
        lane = self._lane(permit.lane)
        if outcome.lesson is not None:
            lane.lessons.add(outcome.lesson)
        if outcome.kind == "answered":
            lane.pace.answered()
            lane.refusals = 0
        elif outcome.kind == "throttled":
            lane.pace.throttled(was.granted_at, outcome.retry_after_s, now)
        elif outcome.kind == "fatal":
            self._refused(lane, outcome.cause)

    def forget(self, holder: str) -> None:
        """Take back what a dead holder had open; its estimates count as spent."""
        for was in [o for o in self._open.values() if o.order.holder == holder]:
            self._close(was, was.order.estimate)

    def status(self, waiting: int = 0) -> LimiterStatus:
        windows = tuple((name, lane.pace.window) for name, lane in self._lanes.items())
        stops = [self._used_up, *(lane.stopped for lane in self._lanes.values())]
        stopped = next((cause for cause in stops if cause is not None), None)
        return LimiterStatus(len(self._open), waiting, self._most, self._spent, windows, stopped)

    def _lane(self, name: str) -> _Lane:
        if name not in self._lanes:
            limits = self._limits
            self._lanes[name] = _Lane(Pace(limits.in_flight, limits.pause_s, limits.retry_after_cap_s))
        return self._lanes[name]

    def _open_at(self, order: Order, lane: _Lane, now: float) -> float:
        requests = self._requests.opens_at(order.estimate.calls, now)
        tokens = self._tokens.opens_at(order.estimate.tokens, now)
        return max(lane.pace.not_before, requests, tokens)

    def _affordable(self, order: Order) -> bool:
        """False while open requests may still turn out cheaper than estimated; raises when nothing is open."""
        short = self._limits.budget.shortfall(self._spent + self._reserved + order.estimate)
        if short is None:
            return True
        if not self._open:
            self._used_up = f"the {short} is used up ({_so_far(self._spent)}): the rest stays owed"
            raise BudgetSpent(self._used_up)
        return False

    def _grant(self, order: Order, lane: _Lane, now: float) -> Permit:
        permit = Permit(next(self._numbers), order.lane, frozenset(lane.lessons))
        requests = self._requests.take(order.estimate.calls, now)
        tokens = self._tokens.take(order.estimate.tokens, now)
        self._open[permit.number] = _Open(permit, order, now, requests, tokens)
        self._reserved += order.estimate
        lane.in_flight += 1
        self._most = max(self._most, len(self._open))
        return permit

    def _close(self, was: _Open, spent: Spending) -> None:
        del self._open[was.permit.number]
        self._lane(was.order.lane).in_flight -= 1
        self._reserved -= was.order.estimate
        self._spent += spent
        self._requests.correct(was.requests, spent.calls)
        self._tokens.correct(was.tokens, spent.tokens)

    def _spent_by(self, was: _Open, outcome: Outcome) -> Spending:
        if outcome.kind == "unsent":
            return Spending()
        return was.order.estimate if outcome.spent is None else outcome.spent

    def _refused(self, lane: _Lane, cause: str | None) -> None:
        lane.refusals += 1
        if lane.refusals >= self._limits.stop_after and lane.stopped is None:
            lane.stopped = (
                f"{counted(lane.refusals, 'call')} in a row were refused, the last one: {cause or 'no cause given'}"
            )

    def _raise_if_stopped(self, lane: _Lane) -> None:
        if self._used_up is not None:
            raise BudgetSpent(self._used_up)
        if lane.stopped is not None:
            raise RunStopped(lane.stopped)

    def _first_overdue(self) -> float:
        return min((_overdue_at(o) for o in self._open.values()), default=NEVER)

    def _take_back_overdue(self, now: float) -> None:
        for was in [o for o in self._open.values() if _overdue_at(o) <= now]:
            self._close(was, was.order.estimate)


def _overdue_at(was: _Open) -> float:
    return was.granted_at + was.order.time_limit_s + GRACE_S


def _so_far(spent: Spending) -> str:
    return f"{counted(spent.calls, 'call')}, {counted(spent.tokens, 'token')}, {spent.usd:.4g} USD so far"
