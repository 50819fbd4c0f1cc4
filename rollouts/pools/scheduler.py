"""Who plays what, and what to do when it goes wrong: a state machine without clocks, processes or Ray.

    scheduler = Scheduler(units, pool.slots, lease.next_attempt, limits)
    until scheduler.done or scheduler.stopped:
        for command in scheduler.commands(now): ...       # Start, Send, Kill: obey them in order
        for event in pool.wait(scheduler.wait_s(now)):
            report = scheduler.feed(event, now)           # a report comes back when it is to be committed

Whatever dies in whatever order, each unit's report comes back exactly once, or the scheduler stops with the first
cause. No ready worker idles while a unit waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from rollouts.pools.backlog import Backlog
from rollouts.pools.patience import Limits
from rollouts.pools.pool import (
    Event,
    Failure,
    Finished,
    Lost,
    Noted,
    Progressed,
    Report,
    Started,
    StartFailed,
    Task,
    TaskFailed,
    Waiting,
)
from rollouts.pools.roster import Roster
from rollouts.pools.slots import NEVER, Command, Kill, Send, Slot, Start
from rollouts.pools.trouble import Streak, Trouble, episode_ids
from rollouts.records import Unit


class Scheduler:
    """See the module's text. `next_attempt` gives each try its name. `now` is any steady clock, in seconds."""

    def __init__(
        self, units: Iterable[Unit], slots: int, next_attempt: Callable[[], str], limits: Limits | None = None
    ) -> None:
        self._limits = limits or Limits()
        self._backlog = Backlog(units)
        self._slots = Roster(slots, self._limits)
        self._next_attempt = next_attempt
        self.planned = len(self._backlog)
        self._owed = self.planned
        self._troubles: dict[int, Trouble] = {}
        self._refusals: Counter[int] = Counter()
        self._kills: list[Command] = []
        self._looked_at = 0.0
        self._failed_episodes = Streak(self._limits.failed_episodes)
        self._failed_tasks = Streak(self._limits.same_cause)
        self.stopped: str | None = None
        self.budget_spent = False

    def add(self, unit: Unit) -> None:
        """One more unit to play, of a number that no other has."""
        self._backlog.add(unit)
        self.planned += 1
        self._owed += 1

    def grow(self, slots: int) -> None:
        """The pool has so many slots by now."""
        self._slots.grow(slots)

    @property
    def done(self) -> bool:
        """Every unit's report has been handed out."""
        return self._owed == 0

    @property
    def busy(self) -> bool:
        """Some worker has a task."""
        return self.playing > 0

    @property
    def playing(self) -> int:
        """Workers that have a task."""
        return self._slots.count("busy")

    @property
    def waiting(self) -> int:
        """Units that no worker has."""
        return len(self._backlog)

    @property
    def live(self) -> int:
        """Workers that are ready or busy."""
        return self._slots.live

    def commands(self, now: float) -> list[Command]:
        """All that is due now, in the order to obey; nothing but kills once it has stopped."""
        self._looked_at = now
        if self.stopped is None:
            self._watch(now)
        commands, self._kills = self._kills, []
        if self.stopped is None:
            commands.extend(self._assign(now))
            commands.extend(self._call_off())
            commands.extend(self._start(now))
        return commands

    def wait_s(self, now: float) -> float:
        """Seconds, at the most, until `commands` has something to say even if nothing happens; infinity where it never
        will. It may be too early: then there is nothing to say yet."""
        rested = self._slots.next_rested(self._looked_at) if self._backlog else NEVER
        return max(0.0, min(self._slots.alarm(now), rested) - now)

    def silences(self, now: float) -> list[str]:
        """For people: who has been quiet for a while, and when that is too long. Each silence once."""
        return [
            f"worker {slot.number} has made no decision for {self._limits.quiet_s:g} s; "
            f"it is ended after {slot.patience_s:g} s without one"
            for slot in self._slots.grown_quiet(now)
        ]

    def feed(self, event: Event, now: float) -> Report | None:
        """Take in what happened; a report that is to be committed comes back."""
        match event:
            case Noted():
                pass
            case Progressed():
                self._slots[event.slot].progress(event.decisions, now)
            case Waiting():
                self._slots[event.slot].has_no_place(now)
            case Started():
                self._slots[event.slot].ready()
            case Finished():
                return self._finished(self._slots[event.slot], event, now)
            case TaskFailed():
                self._task_failed(self._slots[event.slot], event.failure, now)
            case StartFailed():
                self._start_failed(self._slots[event.slot], event.failure, now)
            case Lost():
                self._lost(self._slots[event.slot], event, now)
            case _:
                assert_never(event)
        return None

    def refused(self, unit: Unit, cause: str) -> None:
        """The report that came back for the unit could not be committed: it is owed again. No episode is to blame."""
        self._owed += 1
        self._backlog.give_back(unit)
        self._refusals[unit.number] += 1
        if self._refusals[unit.number] >= self._limits.same_cause:
            self._stop(f"unit {unit.number} could not be committed ({self._refusals[unit.number]} tries): {cause}")

    # What is due

    def _watch(self, now: float) -> None:
        """Kill what took too long."""
        for slot in self._slots.overdue(now):
            why = self._too_long(slot, now)
            self._kills.append(Kill(slot.number, why))
            if slot.state == "busy":
                self._lost(slot, Lost(slot.number, why), now)
            elif not self.live:
                self._never_ready(slot, why, now)
            else:  # there may be no room for it at present; the others go on
                slot.vacate()
                slot.rests_until = now + self._limits.longest_rest_s

    def _too_long(self, slot: Slot, now: float) -> str:
        if slot.state in ("starting", "waiting"):
            return f"no worker was ready within {self._limits.start_s:g} s"
        if slot.last_moment <= now:
            return f"a unit took longer than {self._limits.unit_s:g} s"
        return f"no decision for {slot.patience_s:g} s: the engine, the environment or the policy hangs"

    def _assign(self, now: float) -> Iterator[Command]:
        for slot in self._slots.rested("ready", now):
            if not self._backlog:
                return
            unit = self._backlog.take(slot.group, self._slots.groups)
            slot.play(unit, now)
            yield Send(slot.number, self._task(unit))

    def _task(self, unit: Unit) -> Task:
        attempt = self._next_attempt()
        trouble = self._troubles.get(unit.number)
        return Task(trouble.todo, attempt, trouble.blamed, trouble.alone) if trouble else Task(unit, attempt)

    @property
    def _missing(self) -> int:
        """Workers to be started: as many as units wait (but some ahead of them), without those on their way."""
        wanted = max(len(self._backlog), self._limits.ahead - self.live)
        return wanted - self._slots.count("starting", "waiting")

    def _call_off(self) -> Iterator[Command]:
        """Of those without a place, who is not needed any more: an autoscaler would make one for them."""
        for slot in self._slots.last("waiting", -self._missing):
            slot.vacate()
            yield Kill(slot.number, None)

    def _start(self, now: float) -> Iterator[Command]:
        """Start no more workers than are missing, and not all at once; those without a place burden nobody."""
        room = min(max(self._limits.starting, self.live) - self._slots.count("starting"), self._missing)
        if room <= 0:
            return
        for slot in self._slots.rested("empty", now)[:room]:
            slot.start(now)
            yield Start(slot.number)

    # What happened

    def _finished(self, slot: Slot, event: Finished, now: float) -> Report | None:
        unit = slot.unit
        assert unit is not None, f"slot {slot.number} finished nothing"
        slot.ready()
        slot.has_gone_well()
        self._failed_tasks.broken()
        if event.spent is not None:
            self._kills.append(Kill(slot.number, f"replaced after {event.spent}"))
            slot.vacate()
            slot.rests_until = now
        if event.halted is not None:
            self._judge(event.halted)
            self._backlog.give_back(unit)
            return event.report
        trouble = self._troubles.get(unit.number)
        self._count_failures(event.report, trouble.todo if trouble else unit, trouble)
        if trouble is not None and trouble.on_trial:
            trouble.survived()
            self._backlog.give_back(unit)
            return None
        self._troubles.pop(unit.number, None)
        self._owed -= 1
        return event.report

    def _task_failed(self, slot: Slot, failure: Failure, now: float) -> None:
        """The worker lives, its task does not."""
        unit = slot.unit
        assert unit is not None, f"slot {slot.number} failed nothing"
        slot.ready()
        if not self._judge(failure):
            self._charge(slot, unit, failure.cause, now)
            self._backlog.give_back(unit)

    def _start_failed(self, slot: Slot, failure: Failure, now: float) -> None:
        if not self._judge(failure):
            self._never_ready(slot, failure.cause, now)

    def _never_ready(self, slot: Slot, cause: str, now: float) -> None:
        slot.vacate()
        self._charge_start(slot, slot.failed_to_start(cause, now))

    def _lost(self, slot: Slot, loss: Lost, now: float) -> None:
        unit, before = slot.unit, slot.state
        slot.vacate()
        if loss.preempted:
            slot.rests_until = now + self._limits.rest_s
        elif before in ("starting", "waiting"):
            self._charge_start(slot, slot.died_at_start(loss.cause, now))
        elif before != "empty":
            self._charge(slot, None if loss.unreachable else unit, loss.cause, now)
        if unit is not None:
            self._backlog.give_back(unit)

    # Who is charged, and when it is enough

    def _judge(self, failure: Failure) -> bool:
        """Whether it stops the run: at once, or as one more of its kind."""
        if failure.kind in ("systemic", "budget"):
            self.budget_spent = self.budget_spent or (failure.kind == "budget" and self.stopped is None)
            self._stop(failure.cause)
        elif failure.kind == "error" and self._failed_tasks.add(failure.cause):
            self._stop(f"{self._limits.same_cause} tries in a row failed by one cause: {self._failed_tasks.first}")
        return self.stopped is not None

    def _charge_start(self, slot: Slot, enough: bool) -> None:
        if enough:
            tries = slot.failed_starts + slot.lost_starts
            self._stop(f"no worker can be started ({tries} tries): {slot.first_cause}")

    def _charge(self, slot: Slot, unit: Unit | None, cause: str, now: float) -> None:
        """A death, for the slot and for the unit. An episode that is blamed clears its slot's name."""
        if slot.died(cause, now):
            self._stop(f"workers keep failing ({slot.deaths} in a row in one slot), the first: {slot.first_cause}")
        if unit is None:
            return
        trouble = self._troubles.setdefault(unit.number, Trouble(unit, self._limits.unit_deaths))
        for _ in trouble.died(cause):
            slot.has_gone_well()
            self._count_failed_episode(f"worker: {cause}")
        if trouble.hopeless:
            self._stop(f"unit {unit.number} cannot be recorded, not even as failed: {cause}")

    def _count_failures(self, report: Report, played: Unit, trouble: Trouble | None) -> None:
        """Failed episodes in a row; those that were blamed were counted then."""
        blamed = trouble.blamed if trouble else {}
        for key, failure in zip(episode_ids(played), report.failures, strict=True):
            if failure is None:
                self._failed_episodes.broken()
            elif key not in blamed:
                self._count_failed_episode(": ".join(failure))

    def _count_failed_episode(self, cause: str) -> None:
        if self._failed_episodes.add(cause):
            self._stop(
                f"{self._limits.failed_episodes} episodes in a row failed by one cause: {self._failed_episodes.first}"
            )

    def _stop(self, cause: str) -> None:
        self.stopped = self.stopped or cause
