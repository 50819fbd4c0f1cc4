"""How fast and how much models may be called: the records, and the protocol of whoever says when.

Knows nothing of HTTP or of event loops. A limiter is injected into whoever calls a model:

    permit = await limiter.acquire(order)       # waits for a turn
    ... one HTTP request ...
    await limiter.settle(permit, outcome)       # always, also after a failure
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from rollouts.errors import UsageError
from rollouts.naming import counted

OutcomeKind = Literal["answered", "throttled", "failed", "fatal", "unsent"]


@dataclass(frozen=True, slots=True)
class Spending:
    """What calls have cost. Every HTTP request is a call, failed tries included. Tokens are in + out."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Spending) -> Spending:
        return Spending(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a run may spend over all its starts; None is no limit."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("calls", self.calls), ("tokens", self.tokens), ("usd", self.usd)):
            if value is not None and not 0 <= value < float("inf"):
                raise UsageError(f"budget of {name} {value}: must be 0 or more")

    def shortfall(self, total: Spending) -> str | None:
        """What `total` would overrun ("budget of 10 calls"), or None where it fits."""
        if self.calls is not None and total.calls > self.calls:
            return f"budget of {counted(self.calls, 'call')}"
        if self.tokens is not None and total.tokens > self.tokens:
            return f"budget of {counted(self.tokens, 'token')}"
        if self.usd is not None and total.usd > self.usd * (1 + 1e-12):
            return f"budget of {self.usd:g} USD"
        return None


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of a limiter.

    `spent` is what earlier starts of the same run spent already. A server's Retry-After is obeyed up to
    `retry_after_cap_s`; where it names none, the pause starts at `pause_s` and doubles. After `stop_after` refusals in
    a row that no retry can mend (quota, 401, 403, 404, 400), with no answer in between, nobody gets a turn any more.
    """

    in_flight: int = 16
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget: Budget = Budget()
    spent: Spending = Spending()
    retry_after_cap_s: float = 60.0
    pause_s: float = 0.5
    stop_after: int = 5

    @property
    def only_in_flight(self) -> bool:
        """Whether nothing but `in_flight` limits how many requests there are."""
        return (self.requests_per_minute, self.tokens_per_minute, self.budget) == (None, None, Budget())

    def __post_init__(self) -> None:
        for name in ("in_flight", "requests_per_minute", "tokens_per_minute", "stop_after"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} {value}: must be 1 or more")
        for name in ("retry_after_cap_s", "pause_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"{name} {getattr(self, name)}: must be 0 or more seconds")


@dataclass(frozen=True, slots=True)
class Order:
    """One request that wants a turn. `estimate` is set aside until the outcome is known (calls = 1).

    `lane` is an endpoint and a model: requests of one lane are slowed down together. A permit that is not settled
    within `time_limit_s` and some grace is taken back; `holder` names who asks, so that a dead one can be forgotten.
    """

    lane: str
    estimate: Spending = Spending(calls=1)
    time_limit_s: float = 120.0
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Permit:
    """A turn: leave for one HTTP request, or for `uses` of them one after another where nothing limits how many there
    may be in all. `lessons` names the parameters that this lane is known to refuse."""

    number: int
    lane: str
    lessons: frozenset[str] = frozenset()
    uses: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    answered: a reply, whatever it says. throttled: the endpoint asks for less (429, 503, 529). failed: anything that a
    retry may mend, and what concerns one request only. fatal: nothing mends it. unsent: given back, nothing happened.
    `spent` is None where the endpoint did not say: then the estimate counts as spent. `lesson` is a parameter that
    this endpoint turned out to refuse; `cause` one scrubbed line.
    """

    kind: OutcomeKind
    spent: Spending | None = None
    retry_after_s: float | None = None
    cause: str | None = None
    lesson: str | None = None


@dataclass(frozen=True, slots=True)
class LimiterStatus:
    """A look at a limiter. `window` is the number of requests that each lane may have in flight just now."""

    in_flight: int
    waiting: int
    most_in_flight: int
    spent: Spending
    window: tuple[tuple[str, float], ...]
    stopped: str | None


class Limiter(Protocol):
    """Says when a request may go out. Safe to share between tasks; on a cluster, a handle on the run's governor."""

    async def acquire(self, order: Order) -> Permit:
        """Wait for a turn. Raises `BudgetSpent` when the budget holds no more, `RunStopped` after too many refusals."""
        ...

    async def settle(self, permit: Permit, outcome: Outcome) -> None:
        """Give the turn back and say what became of it."""
        ...
