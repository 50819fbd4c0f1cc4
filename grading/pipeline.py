"""Turns committed units into summaries, grades and credit while rollouts go on, or without any.

    pipeline = SidePipeline(lines, commits, signals)
    with pipeline:
        for unit in ...: pipeline.add(unit, ("grades",))   # what earlier starts left
        pipeline.feed(unit)                                # each unit as it is committed; never blocks
        ended = pipeline.finish(on_event)                  # no more come; waits for the rest

Each line is a pool of its own in a thread of its own, driven by the loop that drives rollouts. The same unit may be
summarized and graded at once, unless one needs the other: then it waits for the other's commit.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from grading.judge import Stage
from rollouts.calls.limits import LimiterStatus
from rollouts.commits import Commits
from rollouts.driver import Committed, Outcome, RunEvent, Stop, drive
from rollouts.pools.arrivals import Arrivals
from rollouts.pools.lanes import LanePool
from rollouts.pools.patience import DeathCaps, Limits
from rollouts.records import SideCounts, SideReport, Unit
from rollouts.scrub import describe_error

LOOK_S = 0.1
LAST_TASKS_S = 30.0
CLOSE_S = 5.0
STATUS_S = 1.0
NEVER_BLAMED = DeathCaps(together=10**9)
LANE_LIMITS = Limits(
    unit_deaths=NEVER_BLAMED, failed_episodes=None, stall_s=60.0, first_decision_s=60.0, quiet_s=float("inf")
)
"""No unit is to blame for the death of an actor that has many under way; an episode without a grade is no failure."""
LOCAL_LIMITS = replace(LANE_LIMITS, stall_s=float("inf"), first_decision_s=float("inf"))


@dataclass(frozen=True)
class Line:
    """One stage of the work. A unit comes here once it is through `after`, of which it may not need all.

    `fed`: takes each unit that is committed while the run goes on; otherwise only what it is given (`add`).
    """

    stage: Stage
    pool: LanePool
    after: frozenset[Stage] = frozenset()
    limits: Limits = LANE_LIMITS
    fed: bool = True


@dataclass(frozen=True, slots=True)
class StageStatus:
    """How far a stage is: units that it was to do, those that are committed, and what they hold.

    `state` is None while it goes on, then that of its outcome, with the `cause` of a stop.
    """

    units: int = 0
    committed: int = 0
    counts: SideCounts = field(default_factory=SideCounts)
    state: str | None = None
    cause: str | None = None

    @property
    def owed(self) -> int:
        """Units that are not committed."""
        return self.units - self.committed


@dataclass(frozen=True)
class SideEvent:
    """What happened in a stage."""

    stage: Stage
    event: RunEvent


@dataclass(frozen=True)
class SideOutcome:
    """How it ended, by stage, and how the calls to models then stood. `state` is the worst of the stages': `complete`,
    `budget`, `stopped` or `interrupted`."""

    stages: Mapping[Stage, StageStatus]
    outcomes: Mapping[Stage, Outcome]
    calls: LimiterStatus | None = None

    @property
    def state(self) -> str:
        states = {status.state for status in self.stages.values()}
        return next((state for state in ("interrupted", "stopped", "budget") if state in states), "complete")

    @property
    def cause(self) -> str | None:
        """The first stage's that names one, of those that are in the worst state."""
        return next((s.cause for s in self.stages.values() if s.cause and s.state == self.state), None)


@dataclass
class _Told:
    """A stop that other threads are told: by the command's signals, or by `close`."""

    signals: Stop | None
    by_close: int | None = None

    @property
    def received(self) -> int | None:
        return (self.signals.received if self.signals else None) or self.by_close


@dataclass
class _Running:
    """A line at work; `held` units wait for another line first."""

    line: Line
    arrivals: Arrivals
    thread: threading.Thread | None = None
    outcome: Outcome | None = None
    held: int = 0
    status: StageStatus = field(default_factory=StageStatus)


class SidePipeline:
    """See the module's text. `commits` promotes `SideReport`s; `feed`, `add` and `status` may be called by any thread.

    `signals` end it as they end rollouts: what is under way is dropped (each reply that was judged is on file).
    """

    def __init__(
        self,
        lines: Sequence[Line],
        commits: Commits,
        signals: Stop | None = None,
        calls: Callable[[float], LimiterStatus | None] = lambda _patience_s: None,
    ) -> None:
        self._commits = commits
        self._calls = calls
        self._stop = _Told(signals)
        self._lock = threading.Lock()
        self._lines = {line.stage: _Running(line, Arrivals(line.pool.wake)) for line in lines}
        self._waiting: dict[int, tuple[Unit, set[Stage]]] = {}
        self._more = True
        self._events: queue.SimpleQueue[SideEvent] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        for running in self._lines.values():
            name = f"{running.line.stage} line"
            running.thread = threading.Thread(target=self._run, args=(running,), name=name, daemon=True)
            running.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def feed(self, unit: Unit) -> None:
        """A unit that has just been committed: every stage that is `fed` does it."""
        self.add(unit, [running.line.stage for running in self._lines.values() if running.line.fed])

    def add(self, unit: Unit, stages: Iterable[Stage]) -> None:
        """A committed unit that `stages` still have to do; each unit once."""
        with self._lock:
            wanted = {stage for stage in stages if stage in self._lines}
            assert self._more, f"unit {unit.number} comes after the end"
            assert unit.number not in self._waiting, f"unit {unit.number} is under way"
            for stage in wanted:
                self._change(stage, units=1)
            if wanted:
                self._waiting[unit.number] = (unit, wanted)
                self._send_on(unit.number, frozenset())

    def status(self) -> dict[Stage, StageStatus]:
        """How far each stage is; never waits."""
        with self._lock:
            return {stage: running.status for stage, running in self._lines.items()}

    def calls(self) -> LimiterStatus | None:
        """How the calls to models stand, as was known a moment ago; never waits. None where no model is called."""
        return self._calls(0.0)

    def events(self) -> list[SideEvent]:
        """What happened since the last call."""
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._events.get_nowait())
        return found

    def finish(self, on_event: Callable[[SideEvent], None] = lambda _event: None) -> SideOutcome:
        """No more units come; wait for those that are under way. `on_event` is called in the caller's thread."""
        with self._lock:
            self._more = False
            self._end_lines()
        while any(running.outcome is None for running in self._lines.values()):
            time.sleep(LOOK_S)
            for event in self.events():
                on_event(event)
        for event in self.events():
            on_event(event)
        outcomes = {stage: running.outcome for stage, running in self._lines.items() if running.outcome is not None}
        return SideOutcome(self.status(), outcomes, self._calls(STATUS_S))

    def close(self) -> None:
        """End whatever is still under way. Idempotent."""
        self._stop.by_close = self._stop.by_close or 1
        with self._lock:
            self._more = False
        for running in self._lines.values():
            running.line.pool.wake()
            if running.thread is not None:
                running.thread.join(CLOSE_S)

    def _run(self, running: _Running) -> None:
        line = running.line

        def tell(event: RunEvent) -> None:
            self._take_in(line.stage, event)

        try:
            outcome = drive(
                [],
                line.pool,
                self._commits,
                arrivals=running.arrivals,
                limits=line.limits,
                signals=self._stop,
                on_event=tell,
                last_tasks_s=LAST_TASKS_S,
            )
        except Exception as error:  # noqa: BLE001  the other lines and the rollouts go on
            outcome = Outcome("stopped", 0, 0, 0, cause=describe_error(error))
        with self._lock:
            running.outcome = outcome
            state, cause = self._ended(running, outcome)
            running.status = replace(running.status, state=state, cause=cause)
            self._end_lines()

    def _take_in(self, stage: Stage, event: RunEvent) -> None:
        if isinstance(event, Committed):
            assert isinstance(event.report, SideReport)
            with self._lock:
                self._change(stage, committed=1, counts=event.report.counts)
                unit, wanted = self._waiting[event.unit.number]
                wanted.discard(stage)
                self._send_on(unit.number, frozenset({stage}))
                if not wanted:
                    del self._waiting[unit.number]
                self._end_lines()
        self._events.put(SideEvent(stage, event))

    def _change(self, stage: Stage, units: int = 0, committed: int = 0, counts: SideCounts | None = None) -> None:
        running = self._lines[stage]
        was = running.status
        running.status = replace(
            was,
            units=was.units + units,
            committed=was.committed + committed,
            counts=was.counts + (counts or SideCounts()),
        )

    def _send_on(self, number: int, done: frozenset[Stage]) -> None:
        """Hand the unit to each line whose turn it is now: at first, or since it is through `done`."""
        unit, wanted = self._waiting[number]
        for stage in wanted:
            running = self._lines[stage]
            waits = bool(running.line.after & wanted)
            if not done:
                running.held += waits
            elif not done & running.line.after or waits:
                continue
            else:
                running.held -= 1
            if not waits and running.outcome is None:
                running.arrivals.add(unit)

    def _end_lines(self) -> None:
        """A line ends when nothing can come any more: none from outside, none from a line before it."""
        for running in self._lines.values():
            if not self._more and (not running.held or all(f.outcome is not None for f in self._before(running))):
                running.arrivals.end()

    def _before(self, running: _Running) -> list[_Running]:
        return [self._lines[stage] for stage in running.line.after if stage in self._lines]

    def _ended(self, running: _Running, outcome: Outcome) -> tuple[str, str | None]:
        """State and cause; a line that got no more since another stopped has that one's."""
        if outcome.state != "complete" or not running.status.owed:
            return outcome.state, outcome.cause
        before = [r.status for r in self._before(running) if r.status.state not in (None, "complete")]
        return (before[0].state or "stopped", before[0].cause) if before else ("interrupted", None)
