"""What a pool of workers is, and what it says. A pool moves work; it decides nothing (the scheduler does).

How the driver uses one:

    pool.start(0)                         # Started(0) or StartFailed(0) or Lost(0) follows
    pool.send(0, Task(unit, attempt))     # Finished(0), TaskFailed(0) or Lost(0) follows
    for event in pool.wait(timeout_s): ...
    pool.kill(0)                          # nothing more is said about what ran in slot 0
    pool.close()                          # the same for all slots
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from rollouts.errors import BudgetSpent, LeaseError, RunStopped, ScenarioError, StorageError, TryVoid, UsageError
from rollouts.records import Unit, UnitReport
from rollouts.scrub import describe_error, scrub

FailureKind = Literal["void", "error", "systemic", "budget"]
_SYSTEMIC = (UsageError, ScenarioError, StorageError, LeaseError, RunStopped)


@dataclass(frozen=True, slots=True)
class Task:
    """One try at a unit. Episodes named in `skip` (id → cause) are recorded as failed without being played.

    `attempt` is unique within a run and names the try's private files. `alone`: nothing else may be played in the same
    process meanwhile, so that it is clear whose fault the death of that is.
    """

    unit: Unit
    attempt: str
    skip: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker could not do what it was told. `cause` is one scrubbed line.

    `void`: this try says nothing (engine or endpoint lost); `error`: anything unforeseen; `systemic`: the same
    will happen to every unit, so the run has to stop; `budget`: the same, because the budget is spent.
    """

    kind: FailureKind
    cause: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The project's own errors speak for themselves (a lost engine says so); any other is named by its type."""
        if isinstance(error, BudgetSpent):
            return cls("budget", scrub(str(error)))
        if isinstance(error, _SYSTEMIC):
            return cls("systemic", scrub(str(error)))
        if isinstance(error, TryVoid):
            return cls("void", scrub(str(error)))
        return cls("error", describe_error(error))


class Report(Protocol):
    """What a worker tells about a unit that it has staged; small. `failures` has one (stage, cause) for each episode
    that failed, None for one that did not, in the order of the unit as it was sent."""

    @property
    def unit(self) -> int: ...

    @property
    def attempt(self) -> str: ...

    @property
    def failures(self) -> tuple[tuple[str, str] | None, ...]: ...


@dataclass(frozen=True, slots=True)
class Started:
    """The slot's worker is ready. `worker` names it and its node, for people."""

    slot: int
    worker: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The slot's worker could not be made; its process is gone or useless."""

    slot: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Finished:
    """The task is played and staged. `spent` says why the worker should now be replaced, where it should; `halted` why
    only a part of the task is done and no other task should be begun: what there is counts, the rest is owed."""

    slot: int
    report: Report
    spent: str | None = None
    halted: Failure | None = None


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """The task could not be played; the worker is alive."""

    slot: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Lost:
    """The slot's worker is gone, with whatever it was doing. `preempted`: its node was taken away on purpose;
    `unreachable`: its node, or the way there, is gone, which says nothing about what it played."""

    slot: int
    cause: str
    preempted: bool = False
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Progressed:
    """The slot's worker has made `decisions` decisions of its present task (only growth counts)."""

    slot: int
    decisions: int


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that people should read."""

    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The slot's worker has no place yet, so its start has not begun. Told again and again while that is so."""

    slot: int


Event = Started | StartFailed | Finished | TaskFailed | Lost | Progressed | Noted | Waiting


class Pool(Protocol):
    """Slots, numbered from 0, each with at most one worker that plays one task at a time. They may become more."""

    @property
    def slots(self) -> int: ...

    def start(self, slot: int) -> None:
        """Begin to make the slot's worker; returns at once."""
        ...

    def send(self, slot: int, task: Task) -> None:
        """Give a ready worker its next task; returns at once."""
        ...

    def kill(self, slot: int) -> None:
        """End the slot's worker, whatever it does; no event of it follows. Returns at once."""
        ...

    def wait(self, timeout_s: float) -> Sequence[Event]:
        """What happened since the last call; waits at most about `timeout_s` when nothing did."""
        ...

    def close(self) -> None:
        """End all workers. Idempotent; never raises for a worker that is already gone."""
        ...


class Player(Protocol):
    """Who plays units and stages their shards; lives in the worker's process, owns one environment and one policy."""

    def play(self, unit: Unit, attempt: str, skip: Mapping[str, str]) -> UnitReport: ...

    def close(self) -> None: ...


@runtime_checkable
class CountsDecisions(Protocol):
    """A player whose `decisions` grows with each decision, and while it rightly waits, readable from another thread:
    the watchdog's food."""

    @property
    def decisions(self) -> int: ...
