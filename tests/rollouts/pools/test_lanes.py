"""Lanes in a thread of this process, and the driver's loop on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from rollouts.driver import drive
from rollouts.errors import UsageError
from rollouts.pools.arrivals import Arrivals
from rollouts.pools.lanes import LocalLanes
from rollouts.pools.patience import Limits
from rollouts.pools.pool import Event, Failure, Finished, Started, StartFailed, Task, TaskFailed
from tests.lane_doubles import FakeJudge, SideCommitsDouble
from tests.pool_doubles import make_units

QUICK = Limits(rest_s=0.01, longest_rest_s=0.02, failed_episodes=None)
UNIT, OTHER = make_units(2)


@pytest.fixture
def judge() -> FakeJudge:
    return FakeJudge(seconds=0.2, mishaps={1: "void"})


@pytest.fixture
def lanes(judge: FakeJudge) -> Iterator[LocalLanes]:
    lanes = LocalLanes(lambda: judge, 2)
    yield lanes
    lanes.close()


def heard(lanes: LocalLanes, count: int) -> list[Event]:
    found: list[Event] = []
    over = time.monotonic() + 5
    while len(found) < count and time.monotonic() < over:
        found += lanes.wait(0.05)
    return found


def ready(lanes: LocalLanes) -> LocalLanes:
    for slot in range(lanes.slots):
        lanes.start(slot)
    assert {event.slot for event in heard(lanes, 2) if isinstance(event, Started)} == {0, 1}
    return lanes


def test_lanes_work_at_the_same_time(lanes: LocalLanes, judge: FakeJudge) -> None:
    ready(lanes)
    lanes.send(0, Task(UNIT, "a"))
    lanes.send(1, Task(make_units(3)[2], "b"))
    events = heard(lanes, 2)
    assert {e.report.attempt for e in events if isinstance(e, Finished) and e.halted is None} == {"a", "b"}
    assert judge.most == 2


def test_an_error_of_a_task_leaves_its_lane_ready(lanes: LocalLanes) -> None:
    ready(lanes).send(0, Task(OTHER, "a"))
    assert heard(lanes, 1) == [TaskFailed(0, Failure("void", "the shards are not there"))]
    lanes.send(0, Task(UNIT, "b"))
    assert isinstance(heard(lanes, 1)[0], Finished)


def test_a_killed_lane_says_nothing_of_its_task(lanes: LocalLanes, judge: FakeJudge) -> None:
    ready(lanes).send(0, Task(UNIT, "a"))
    lanes.kill(0)
    lanes.start(0)
    lanes.send(1, Task(UNIT, "b"))
    events = heard(lanes, 2)
    assert [e.report.attempt for e in events if isinstance(e, Finished)] == ["b"]
    assert judge.under_way == 0


def test_a_player_that_cannot_be_made_is_told_of_and_may_be_made_again() -> None:
    faults = iter([UsageError("no endpoint is known")])

    def make() -> FakeJudge:
        for fault in faults:
            raise fault
        return FakeJudge()

    lanes = LocalLanes(make, 1)
    lanes.start(0)
    assert heard(lanes, 1) == [StartFailed(0, Failure("systemic", "no endpoint is known"))]
    lanes.start(0)
    assert isinstance(heard(lanes, 1)[0], Started)
    lanes.close()


def test_wake_ends_a_wait(lanes: LocalLanes) -> None:
    threading.Timer(0.05, lanes.wake).start()
    begun = time.monotonic()
    assert lanes.wait(60.0) == []
    assert time.monotonic() - begun < 30


def test_close_drops_what_is_under_way_and_closes_the_player() -> None:
    judge = FakeJudge(seconds=30)
    lanes = LocalLanes(lambda: judge, 2)
    ready(lanes).send(0, Task(UNIT, "a"))
    time.sleep(0.02)
    begun = time.monotonic()
    lanes.close()
    assert time.monotonic() - begun < 15  # of 30
    assert (judge.under_way, judge.closed) == (0, True)
    lanes.close()


def test_closing_what_was_never_started_is_fine() -> None:
    LocalLanes(FakeJudge, 3).close()


def test_the_driver_takes_units_that_arrive() -> None:
    lanes, commits = LocalLanes(FakeJudge, 4), SideCommitsDouble()
    arrivals = Arrivals(lanes.wake)

    def feed() -> None:
        for unit in make_units(30)[10:]:
            arrivals.add(unit)
            time.sleep(0.001)
        arrivals.end()

    threading.Timer(0.1, feed).start()
    outcome = drive(make_units(10), lanes, commits, arrivals=arrivals)
    assert (outcome.state, outcome.committed, outcome.owed) == ("complete", 30, 0)
    assert commits.units() == list(range(30))


def test_an_idle_line_takes_up_an_arrival_at_once() -> None:
    """A hundred units, each arriving when the one before is committed: at the pace of looking around it takes 20 s."""
    lanes, units = LocalLanes(FakeJudge, 1), iter(make_units(100))
    arrivals = Arrivals(lanes.wake)

    def add_next(_report: object = None) -> None:
        if (unit := next(units, None)) is not None:
            threading.Timer(0.01, arrivals.add, (unit,)).start()
        else:
            arrivals.end()

    add_next()
    begun = time.monotonic()
    assert drive([], lanes, SideCommitsDouble(add_next), arrivals=arrivals).committed == 100
    assert time.monotonic() - begun < 15


def test_a_spent_budget_ends_it_and_keeps_what_is_done() -> None:
    """Unit 3 is done in part; the others under way then may end; nothing else is begun."""
    commits = SideCommitsDouble()
    lanes = LocalLanes(lambda: FakeJudge(0.1, {3: "budget"}), 4)
    outcome = drive(make_units(40), lanes, commits, limits=QUICK, last_tasks_s=5.0)
    assert (outcome.state, outcome.cause) == ("budget", "the budget of 3 calls is used up")
    assert commits.units() == [0, 1, 2, 3]
    assert (outcome.committed, outcome.owed) == (3, 37)


def test_without_patience_tasks_under_way_are_dropped_at_a_stop() -> None:
    commits = SideCommitsDouble()
    lanes = LocalLanes(lambda: FakeJudge(0.1, {3: "budget"}), 4)
    assert drive(make_units(40), lanes, commits, limits=QUICK).state == "budget"
    assert commits.units() == [3]
