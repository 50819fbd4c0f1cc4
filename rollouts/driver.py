"""Runs units on a pool and commits what comes back. Does not know where the work happens, nor what a unit holds.

    outcome = drive(owed_units, pool, RunCommits(folder, lease), signals=signals, on_event=show)

Units may also arrive while it goes on (`arrivals`): what judges them is driven by the same loop, in other threads.
Nothing here blocks for long, so that a signal is seen at once; what is in memory does not grow with the episodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, assert_never

from rollouts.commits import Commit, CommitQueue, Commits, Heart
from rollouts.errors import LeaseError, StorageError
from rollouts.pools.arrivals import NOTHING_MORE, Arrivals
from rollouts.pools.patience import Limits
from rollouts.pools.pool import (
    Event,
    Finished,
    Lost,
    Noted,
    Pool,
    Progressed,
    Report,
    Started,
    StartFailed,
    TaskFailed,
    Waiting,
)
from rollouts.pools.scheduler import Scheduler
from rollouts.pools.slots import Command, Kill, Send, Start
from rollouts.records import Unit
from rollouts.signals import Interrupted

LOOK_AROUND_S = 0.2
COMMIT_LOOK_S = 0.02
"""How soon a commit under way is looked for: what was committed is fed to those who judge it."""
LAST_COMMITS_S = 1.0
TELL_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Committed:
    """A unit is part of the run now."""

    unit: Unit
    report: Report


@dataclass(frozen=True, slots=True)
class Workers:
    """How things stand: workers that are ready or busy, those of them that have a unit, and units that wait for one."""

    live: int
    playing: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that people should read: a worker lost, a try that failed."""

    text: str


RunEvent = Committed | Workers | Remark
State = Literal["complete", "budget", "stopped", "interrupted"]


class Stop(Protocol):
    """Says whether to stop, and by which signal: `Signals`, or what a thread is told by another."""

    @property
    def received(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. `complete`: nothing is owed; `stopped`: the run cannot go on, `cause` says why and `error` is the
    storage's or the lease's own where it was that; `budget`: the same because the budget for model calls is spent;
    `interrupted`: by `signal`, with something still owed.

    `committed` and `owed` count units; `failed_episodes` those among the committed, the first with its cause.
    """

    state: State
    committed: int
    owed: int
    failed_episodes: int
    first_failure: str | None = None
    cause: str | None = None
    error: StorageError | LeaseError | None = None
    signal: int | None = None


def _ignore(_event: RunEvent) -> None:
    pass


def drive(  # noqa: PLR0913  all but three are named and have defaults
    units: Sequence[Unit],
    pool: Pool,
    commits: Commits,
    *,
    limits: Limits | None = None,
    arrivals: Arrivals = NOTHING_MORE,
    signals: Stop | None = None,
    on_event: Callable[[RunEvent], None] = _ignore,
    commit_threads: int = 4,
    heartbeat_s: float = 5.0,
    last_tasks_s: float = 0.0,
) -> Outcome:
    """Play and commit all `units` (those that are owed) and those that arrive. Closes the pool, whatever happens.

    On the first signal, units in flight are dropped and commits under way get a moment. Where the run stops by itself,
    tasks under way get `last_tasks_s` to end. `on_event` is called in the caller's thread.
    """
    scheduler = Scheduler(units, pool.slots, commits.next_attempt, limits)
    queue = CommitQueue(commits.promote, commit_threads, most=4 * (commit_threads + pool.slots))
    course = _Course(units, arrivals, pool, scheduler, queue, on_event)
    with Heart(commits.heartbeat, heartbeat_s) as heart:
        try:
            while course.goes_on and not (signals and signals.received):
                course.step()
                course.error = course.error or heart.error
            course.let_tasks_end(last_tasks_s, signals)
        except Interrupted:
            pass
        finally:
            pool.close()
            course.finish(LAST_COMMITS_S if signals and signals.received else None)
    return course.outcome(signals.received if signals else None)


class _Course:
    """One run's loop body, and what it has counted."""

    def __init__(  # noqa: PLR0913, PLR0917  what `drive` has put together
        self,
        units: Sequence[Unit],
        arrivals: Arrivals,
        pool: Pool,
        scheduler: Scheduler,
        queue: CommitQueue,
        on_event: Callable[[RunEvent], None],
    ) -> None:
        self._units = {unit.number: unit for unit in units}
        self._arrivals = arrivals
        self._parts: set[str] = set()
        self._pool = pool
        self._scheduler = scheduler
        self._queue = queue
        self._on_event = on_event
        self._live = 0
        self._tell_at = 0.0
        self._committed = 0
        self._failed_episodes = 0
        self._first_failure: str | None = None
        self.error: StorageError | LeaseError | None = None

    @property
    def goes_on(self) -> bool:
        played = self._arrivals.exhausted and self._scheduler.done and not len(self._queue)
        return not played and self._scheduler.stopped is None and self.error is None

    def step(self) -> None:
        for unit in self._arrivals.take():
            self._units[unit.number] = unit
            self._scheduler.add(unit)
        self._scheduler.grow(self._pool.slots)
        for command in self._scheduler.commands(time.monotonic()):
            self._obey(command)
        for silence in self._scheduler.silences(time.monotonic()):
            self._on_event(Remark(silence))
        if time.monotonic() >= self._tell_at:
            self._tell_how_it_stands()
        if not self._queue.full and not (self._scheduler.done and self._arrivals.exhausted):
            look_s = COMMIT_LOOK_S if len(self._queue) else LOOK_AROUND_S
            for event in self._pool.wait(min(self._scheduler.wait_s(time.monotonic()), look_s)):
                self._take_in(event)
            self._collect(0.0)
        else:
            self._collect(LOOK_AROUND_S)

    def let_tasks_end(self, patience_s: float, signals: Stop | None) -> None:
        """Begin nothing more, and take in what still comes."""
        over = time.monotonic() + patience_s
        while self._scheduler.busy and self.error is None and time.monotonic() < over:
            if signals and signals.received:
                return
            for event in self._pool.wait(LOOK_AROUND_S):
                self._take_in(event)
            self._collect(0.0)

    def finish(self, patience_s: float | None) -> None:
        """Commit what is whole, as far as that goes in the time; then no more."""
        over = None if patience_s is None else time.monotonic() + patience_s
        while len(self._queue) and self.error is None and (over is None or time.monotonic() < over):
            self._collect(LOOK_AROUND_S)
        self._queue.close()
        self._tell_how_it_stands()

    def outcome(self, signal: int | None) -> Outcome:
        owed = len(self._units) - self._committed
        cause = str(self.error) if self.error else self._scheduler.stopped
        state: State = "complete"
        if cause is not None:
            state = "budget" if self._scheduler.budget_spent and self.error is None else "stopped"
        elif owed:
            state = "interrupted"
        return Outcome(
            state=state,
            committed=self._committed,
            owed=owed,
            failed_episodes=self._failed_episodes,
            first_failure=self._first_failure,
            cause=cause,
            error=self.error,
            signal=signal,
        )

    def _obey(self, command: Command) -> None:
        match command:
            case Start(slot):
                self._pool.start(slot)
            case Send(slot, task):
                self._pool.send(slot, task)
            case Kill(slot, why):
                self._pool.kill(slot)
                if why is not None:
                    self._on_event(Remark(f"worker {slot} was ended: {why}"))
            case _:
                assert_never(command)

    def _take_in(self, event: Event) -> None:
        report = self._scheduler.feed(event, time.monotonic())
        if report is not None:
            if isinstance(event, Finished) and event.halted is not None:
                self._parts.add(report.attempt)
            self._queue.add(report)
        if remark := _remark(event):
            self._on_event(Remark(remark))
        if self._live != self._scheduler.live:
            self._tell_how_it_stands()

    def _tell_how_it_stands(self) -> None:
        scheduler, self._tell_at = self._scheduler, time.monotonic() + TELL_EVERY_S
        self._live = scheduler.live
        self._on_event(Workers(self._live, scheduler.playing, scheduler.waiting))

    def _collect(self, timeout_s: float) -> None:
        for commit in self._queue.through(timeout_s):
            if commit.error is not None:
                self.error = self.error or commit.error
            elif commit.refused is not None:
                self._refuse(commit, commit.refused)
            else:
                self._count(commit.report)

    def _refuse(self, commit: Commit, cause: str) -> None:
        if commit.report.attempt in self._parts:
            return  # the unit is owed in any case
        self._scheduler.refused(self._units[commit.report.unit], cause)
        self._on_event(Remark(f"unit {commit.report.unit} is played again: {cause}"))

    def _count(self, report: Report) -> None:
        unit = self._units[report.unit]
        if report.attempt in self._parts:
            return
        self._committed += 1
        for key, failure in zip(unit.keys(), report.failures, strict=True):
            if failure is not None:
                self._failed_episodes += 1
                self._first_failure = self._first_failure or f"{key.episode_id}: {failure[0]}: {failure[1]}"
        self._on_event(Committed(unit, report))


def _remark(event: Event) -> str | None:
    match event:
        case Lost(slot, cause, preempted, _):
            return f"worker {slot} {'taken away' if preempted else 'lost'}: {cause}"
        case StartFailed(slot, failure):
            return f"worker {slot} could not start: {failure.cause}"
        case TaskFailed(slot, failure):
            return f"worker {slot} failed: {failure.cause}"
        case Noted(text):
            return text
        case Started() | Progressed() | Finished() | Waiting():
            return None
        case _:
            assert_never(event)
