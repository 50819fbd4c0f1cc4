"""The driver's loop on pools that do what the test says."""

from __future__ import annotations

import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence

import pytest

from rollouts.driver import Committed, Outcome, Remark, RunEvent, Workers, drive
from rollouts.errors import LeaseError, StorageError, TryVoid
from rollouts.pools.patience import Limits
from rollouts.pools.pool import Event, Failure, Finished, Lost, Task, TaskFailed
from rollouts.records import UnitReport
from rollouts.signals import GRACE_S, Signals
from tests.pool_doubles import FakeCommits, InstantPool, make_units, report_of

QUICK = Limits(rest_s=0.01, longest_rest_s=0.02)


class ScriptedPool(InstantPool):
    """Each task's outcome is what `script` makes of it."""

    def __init__(self, script: Callable[[int, Task], Event], slots: int = 1) -> None:
        super().__init__(slots)
        self._script = script

    def outcome(self, slot: int, task: Task) -> Event:
        return self._script(slot, task)


def test_all_units_are_committed_once_and_told_of() -> None:
    commits, events = FakeCommits(), list[RunEvent]()
    pool = InstantPool(3)
    outcome = drive(make_units(20, groups=3), pool, commits, on_event=events.append)
    assert outcome == Outcome("complete", committed=20, owed=0, failed_episodes=0)
    assert sorted(commits.promoted) == list(range(20))
    assert sorted(e.unit.number for e in events if isinstance(e, Committed)) == list(range(20))
    assert max(e.live for e in events if isinstance(e, Workers)) == 3
    assert pool.closed


def test_a_commit_under_way_is_told_of_soon_while_another_worker_plays_on() -> None:
    """Graders wait for it. The commit of the first unit lasts until the driver has waited once for the second one,
    which ends when the first is told of: no wait in between is long."""
    waited, told, waits = threading.Event(), threading.Event(), list[float]()

    class OneGoesOn(InstantPool):
        def wait(self, timeout_s: float) -> Sequence[Event]:
            late = [e for e in self._events if isinstance(e, Finished) and e.report.unit == 1]
            if not late or told.is_set():
                return super().wait(timeout_s)
            self._events = [event for event in self._events if event not in late]
            if not self._events:
                waits.append(timeout_s)
                waited.set()
            events = super().wait(timeout_s)
            self._events += late
            return events

    class Slow(FakeCommits):
        def promote(self, report: UnitReport) -> bool:
            return waited.wait(5) and super().promote(report)

    outcome = drive(
        make_units(2), OneGoesOn(2), Slow(), on_event=lambda e: told.set() if isinstance(e, Committed) else None
    )
    assert outcome.committed == 2
    assert 0 < max(waits) < 0.1


def test_nothing_owed_starts_nothing() -> None:
    pool = InstantPool(2)
    assert drive([], pool, FakeCommits()).state == "complete"
    assert pool.state == ["empty", "empty"]


def test_failed_episodes_are_counted_and_the_first_is_named() -> None:
    def play(slot: int, task: Task) -> Event:
        failure = {"scenario0.rule.oracle.2.1": ("policy", "no answer")}
        return Finished(slot, report_of(task, failure if task.unit.number == 2 else None))

    outcome = drive(make_units(4, episodes=2), ScriptedPool(play), FakeCommits())
    assert (outcome.state, outcome.failed_episodes) == ("complete", 1)
    assert outcome.first_failure == "scenario0.rule.oracle.2.1: policy: no answer"


def test_a_stop_names_the_first_true_cause_and_closes_the_pool() -> None:
    pool = ScriptedPool(lambda slot, _task: TaskFailed(slot, Failure("error", "ValueError: bad weights path X")))
    outcome = drive(make_units(4), pool, FakeCommits(), limits=QUICK)
    assert outcome.state == "stopped"
    assert outcome.cause is not None
    assert outcome.cause.endswith("ValueError: bad weights path X")
    assert (outcome.committed, outcome.owed) == (0, 4)
    assert pool.closed


def test_lost_workers_are_remarked_on_and_their_units_played_again() -> None:
    deaths = iter([True, True, False, True])

    def play(slot: int, task: Task) -> Event:
        return Lost(slot, "signal 9") if next(deaths, False) else Finished(slot, report_of(task))

    events: list[RunEvent] = []
    outcome = drive(make_units(6), ScriptedPool(play, 2), FakeCommits(), limits=QUICK, on_event=events.append)
    assert outcome.state == "complete"
    assert [e.text for e in events if isinstance(e, Remark)].count("worker 0 lost: signal 9") >= 1


@pytest.mark.parametrize("error", [StorageError("disk full"), LeaseError("held by another")])
def test_a_commit_that_cannot_be_done_stops_with_its_own_error(error: StorageError | LeaseError) -> None:
    class Broken(FakeCommits):
        def promote(self, report: UnitReport) -> bool:
            if report.unit == 3:
                raise error
            return super().promote(report)

    outcome = drive(make_units(1000), InstantPool(), Broken())
    assert (outcome.state, outcome.error, outcome.cause) == ("stopped", error, str(error))
    assert 3 <= outcome.committed < 1000


def test_a_refused_commit_is_played_again() -> None:
    class Refusing(FakeCommits):
        refused = False

        def promote(self, report: UnitReport) -> bool:
            if report.unit == 4 and not self.refused:
                self.refused = True
                raise TryVoid("files missing")
            return super().promote(report)

    commits = Refusing()
    outcome = drive(make_units(5), InstantPool(), commits)
    assert outcome.state == "complete"
    assert sorted(commits.promoted) == list(range(5))


def test_a_lost_lease_stops_a_run_whose_units_take_long() -> None:
    class Stolen(FakeCommits):
        def heartbeat(self) -> None:
            raise LeaseError("held by another")

    class Endless(InstantPool):
        def send(self, slot: int, task: Task) -> None:
            pass

    outcome = drive(make_units(5), Endless(), Stolen(), heartbeat_s=0.05)
    assert outcome.cause == "held by another"


@pytest.mark.slow
def test_the_lease_beats_while_the_main_thread_is_busy() -> None:
    class Slow(InstantPool):
        def wait(self, timeout_s: float) -> list[Event]:
            time.sleep(0.2)
            return list(super().wait(timeout_s))

    commits = FakeCommits()
    drive(make_units(2), Slow(), commits, heartbeat_s=0.02)
    assert commits.beats >= 5


def test_a_slow_store_holds_the_workers_back() -> None:
    """Reports under way are bounded: 4 x (1 thread + 1 slot), and one that is just in."""
    under_way, most = 0, 0
    lock = threading.Lock()

    class Slow(FakeCommits):
        def promote(self, report: UnitReport) -> bool:
            nonlocal under_way
            time.sleep(0.002)
            with lock:
                under_way -= 1
            return super().promote(report)

    def play(slot: int, task: Task) -> Event:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        return Finished(slot, report_of(task))

    outcome = drive(make_units(100), ScriptedPool(play), Slow(), commit_threads=1)
    assert outcome.committed == 100
    assert 2 <= most <= 9


def test_a_signal_drops_what_is_in_flight_and_commits_what_is_whole() -> None:
    def play(slot: int, task: Task) -> Event:
        if task.unit.number == 3:
            signal.raise_signal(signal.SIGTERM)
        return Finished(slot, report_of(task))

    pool, commits = ScriptedPool(play), FakeCommits()
    with Signals() as signals:
        started = time.monotonic()
        outcome = drive(make_units(10), pool, commits, signals=signals)
    assert time.monotonic() - started < GRACE_S
    assert (outcome.state, outcome.signal) == ("interrupted", signal.SIGTERM)
    assert sorted(commits.promoted) == list(range(outcome.committed))
    assert outcome.committed in (3, 4)
    assert outcome.owed == 10 - outcome.committed
    assert pool.closed


@pytest.mark.slow
def test_memory_does_not_grow_with_the_units_played() -> None:
    units = make_units(4000)
    commits = FakeCommits()
    commits.promote = lambda _report: True  # type: ignore[method-assign]
    held: list[int] = []
    events = iter(range(10**6))

    def look(_event: RunEvent) -> None:
        if next(events) in (500, 3900):
            held.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        pool = InstantPool()
        pool.sent = _Forgetful()
        drive(units, pool, commits, on_event=look)
    finally:
        tracemalloc.stop()
    assert held[1] - held[0] < 1_000_000


class _Forgetful(list[Task]):
    def append(self, _task: Task) -> None:
        pass
