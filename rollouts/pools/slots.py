"""One place for a worker, as the scheduler sees it, and the commands that a pool obeys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from rollouts.pools.backlog import Group, group_of
from rollouts.pools.patience import Limits
from rollouts.pools.pool import Task
from rollouts.records import Unit

State = Literal["empty", "starting", "waiting", "ready", "busy"]
WATCHED: tuple[State, ...] = ("starting", "waiting", "busy")
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Start:
    slot: int


@dataclass(frozen=True, slots=True)
class Send:
    slot: int
    task: Task


@dataclass(frozen=True, slots=True)
class Kill:
    """`why` is for people; None where there is nothing to tell."""

    slot: int
    why: str | None


Command = Start | Send | Kill


class Overseer(Protocol):
    """Whoever keeps count of the slots hears of each change."""

    def moved(self, slot: Slot, before: State) -> None: ...
    def regrouped(self, slot: Slot, before: Group | None) -> None: ...
    def waits(self, slot: Slot) -> None: ...


@dataclass(slots=True)
class Slot:
    """A worker is `starting`, and as long as it is known to have no place `waiting`; then `ready` or `busy`.

    `rests_until` holds back its next start or task; `deadline` moves with each decision, `last_moment` does not.
    `patience_s` is how far the deadline lies ahead, `quiet_since` the last decision that nobody was told to wait for.

    `decisions` counts those seen of the present task; `first_cause` is that of the present row of failures.
    """

    number: int
    limits: Limits
    overseer: Overseer = field(repr=False)
    state: State = "empty"
    rests_until: float = 0.0
    deadline: float = NEVER
    last_moment: float = NEVER
    patience_s: float = 0.0
    quiet_since: float = NEVER
    group: Group | None = None
    unit: Unit | None = None
    decisions: int = 0
    deaths: int = 0
    failed_starts: int = 0
    lost_starts: int = 0
    first_cause: str = ""

    @property
    def alarm(self) -> float:
        """When the watchdog has to look."""
        return min(self.deadline, self.last_moment) if self.state in WATCHED else NEVER

    @property
    def quiet_at(self) -> float:
        """When people have to be told that no decision comes."""
        return self.quiet_since + self.limits.quiet_s if self.state == "busy" else NEVER

    def start(self, now: float) -> None:
        self._become("starting")
        self.deadline, self.last_moment = now + self.limits.start_s, NEVER
        self.overseer.waits(self)

    def has_no_place(self, now: float) -> None:
        """Its start has not begun."""
        if self.state in ("starting", "waiting"):
            self._become("waiting")
            self.deadline = now + self.limits.start_s
            self.overseer.waits(self)

    def ready(self) -> None:
        self._become("ready")
        self.unit = None

    def play(self, unit: Unit, now: float) -> None:
        at_home = self.group == group_of(unit)
        self._become("busy")
        self._join(group_of(unit))
        self.unit, self.decisions = unit, 0
        self.last_moment = NEVER if self.limits.unit_s is None else now + self.limits.unit_s
        self._wait(self.limits.stall_s if at_home else self.limits.first_decision_s, now)

    def progress(self, decisions: int, now: float) -> None:
        if self.state == "busy" and decisions > self.decisions:
            self.decisions = decisions
            self._wait(self.limits.stall_s, now)

    def grew_quiet(self, now: float) -> bool:
        """Whether it is time to tell that no decision comes; once for each silence."""
        if now < self.quiet_at:
            return False
        self.quiet_since = NEVER
        return True

    def _wait(self, patience_s: float, now: float) -> None:
        self.patience_s, self.deadline, self.quiet_since = patience_s, now + patience_s, now
        self.overseer.waits(self)

    def _become(self, state: State) -> None:
        before, self.state = self.state, state
        self.overseer.moved(self, before)

    def _join(self, group: Group | None) -> None:
        before, self.group = self.group, group
        self.overseer.regrouped(self, before)

    def vacate(self) -> None:
        self._become("empty")
        self._join(None)
        self.unit = None

    def has_gone_well(self) -> None:
        self.deaths = self.failed_starts = self.lost_starts = 0
        self.first_cause = ""

    def died(self, cause: str, now: float) -> bool:
        """Charge a death; whether that is one too many."""
        self.deaths += 1
        self._rest(cause, self.deaths, now)
        return self.deaths >= self.limits.slot_deaths

    def failed_to_start(self, cause: str, now: float) -> bool:
        """Charge a failed start; whether that is one too many."""
        self.failed_starts += 1
        self._rest(cause, self.failed_starts, now)
        return self.failed_starts >= self.limits.failed_starts

    def died_at_start(self, cause: str, now: float) -> bool:
        """Charge a worker that was gone before it was ready; whether that is one too many."""
        self.lost_starts += 1
        self._rest(cause, self.lost_starts, now)
        return self.lost_starts >= self.limits.lost_starts

    def _rest(self, cause: str, failures: int, now: float) -> None:
        self.first_cause = self.first_cause or cause
        self.rests_until = now + self.limits.rest_after_s(failures)
