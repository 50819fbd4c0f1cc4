"""The scheduler alone: whatever dies in whatever order, each unit ends once or the run stops."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.pools.patience import DeathCaps, Limits
from rollouts.pools.pool import (
    Failure,
    FailureKind,
    Finished,
    Lost,
    Noted,
    Progressed,
    Started,
    StartFailed,
    Task,
    TaskFailed,
    Waiting,
)
from rollouts.pools.scheduler import Scheduler
from rollouts.pools.slots import Kill, Send, Start
from rollouts.pools.trouble import episode_ids
from rollouts.records import Unit
from tests.pool_doubles import make_units, report_of

DIED = "worker died (signal 9)"


class Bench:
    """A scheduler with a clock set by hand and workers that do what the test says."""

    def __init__(self, units: list[Unit], slots: int = 1, limits: Limits | None = None) -> None:
        names = (f"e7-{n}" for n in itertools.count(1))
        self.scheduler = Scheduler(units, slots, lambda: next(names), limits)
        self.units = {unit.number: unit for unit in units}
        self.now = 0.0
        self.starting: set[int] = set()
        self.ready: set[int] = set()
        self.tasks: dict[int, Task] = {}
        self.sent: list[Task] = []
        self.killed: list[int] = []
        self.committed: list[int] = []
        self.failed: dict[str, str] = {}
        self.obey()

    def obey(self) -> None:
        for command in self.scheduler.commands(self.now):
            match command:
                case Start(slot):
                    assert slot not in self.starting | self.ready | self.tasks.keys(), "a slot has one worker"
                    self.starting.add(slot)
                case Send(slot, task):
                    self.ready.remove(slot)
                    assert task.attempt not in {t.attempt for t in self.sent}, "an attempt's name is its own"
                    self.tasks[slot] = task
                    self.sent.append(task)
                case Kill(slot, _):
                    self.forget(slot)
                    self.killed.append(slot)

    def forget(self, slot: int) -> None:
        self.starting.discard(slot)
        self.ready.discard(slot)
        self.tasks.pop(slot, None)

    def start(self, *slots: int) -> None:
        for slot in slots:
            self.starting.remove(slot)
            self.ready.add(slot)
            self.scheduler.feed(Started(slot, "w"), self.now)
        self.obey()

    def finish(self, slot: int, failures: dict[str, tuple[str, str]] | None = None, spent: str | None = None) -> None:
        task = self.tasks.pop(slot)
        self.ready.add(slot)
        report = self.scheduler.feed(Finished(slot, report_of(task, failures), spent), self.now)
        if report is not None:
            self.committed.append(report.unit)
            for name, failure in zip(episode_ids(task.unit), report.failures, strict=True):
                if failure:
                    self.failed[name] = failure[1]
        self.obey()

    def fail(self, slot: int, failure: Failure) -> None:
        self.tasks.pop(slot)
        self.ready.add(slot)
        self.scheduler.feed(TaskFailed(slot, failure), self.now)
        self.obey()

    def fail_start(self, slot: int, failure: Failure) -> None:
        self.starting.remove(slot)
        self.scheduler.feed(StartFailed(slot, failure), self.now)
        self.obey()

    def refuse(self) -> None:
        """The last commit did not go through."""
        unit = self.committed.pop()
        self.scheduler.refused(self.units[unit], "files missing")
        self.obey()

    def lose(self, slot: int, cause: str = DIED, preempted: bool = False, unreachable: bool = False) -> None:
        self.forget(slot)
        self.scheduler.feed(Lost(slot, cause, preempted, unreachable), self.now)
        self.obey()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.obey()

    def revive(self, slot: int = 0) -> None:
        """Let the pause pass and the worker come up again."""
        self.pass_time(15.0)
        self.start(slot)

    def at(self, slot: int) -> tuple[int, tuple[int, ...]]:
        """(unit, episode indices) that the slot plays."""
        unit = self.tasks[slot].unit
        return unit.number, tuple(e.index for e in unit.episodes)


def test_an_undisturbed_run_plays_each_unit_once_in_the_plans_order() -> None:
    bench = Bench(make_units(3))
    bench.start(0)
    for _ in range(3):
        bench.finish(0)
    assert bench.committed == [0, 1, 2]
    assert bench.scheduler.done
    assert [t.attempt for t in bench.sent] == ["e7-1", "e7-2", "e7-3"]


def test_nothing_to_do_starts_nothing() -> None:
    bench = Bench([], slots=4)
    assert bench.scheduler.done
    assert not bench.starting


def test_no_more_workers_than_units_are_started() -> None:
    assert Bench(make_units(2), slots=8).starting == {0, 1}


def test_workers_are_started_a_few_at_a_time_and_then_as_many_as_are_ready() -> None:
    bench = Bench(make_units(100), slots=20, limits=Limits(starting=4))
    assert bench.starting == {0, 1, 2, 3}
    bench.start(0, 1)
    assert len(bench.starting) == 4
    bench.start(*bench.starting)
    assert len(bench.starting) == 6


def test_a_waiting_slot_does_not_keep_the_driver_awake() -> None:
    """Slots that only wait for their turn to start set no alarm."""
    bench = Bench(make_units(100), slots=20, limits=Limits(starting=4, start_s=50))
    assert bench.scheduler.wait_s(0.0) == 50


def test_a_worker_stays_with_its_group_and_the_others_spread() -> None:
    bench = Bench(make_units(8, groups=2), slots=2)
    bench.start(0, 1)
    assert [bench.at(s)[0] for s in (0, 1)] == [0, 4]
    for _ in range(3):
        bench.finish(0)
        bench.finish(1)
    assert [t.unit.number for t in bench.sent] == [0, 4, 1, 5, 2, 6, 3, 7]


def test_a_lost_unit_goes_first_and_to_whoever_is_free() -> None:
    bench = Bench(make_units(5), slots=2)
    bench.start(0, 1)
    bench.lose(0)
    bench.finish(1)
    assert bench.at(1)[0] == 0


def test_a_slot_rests_after_a_death_a_little_longer_each_time() -> None:
    bench = Bench(make_units(9), limits=Limits(rest_s=1.0))
    for rest_s in (1.0, 2.0, 4.0):
        bench.start(0)
        bench.lose(0)
        assert bench.scheduler.wait_s(bench.now) == rest_s
        bench.pass_time(rest_s - 0.01)
        assert not bench.starting
        bench.pass_time(0.01)
        assert bench.starting == {0}


def test_after_the_second_death_episodes_are_tried_alone_and_only_the_killer_is_failed() -> None:
    bench = Bench(make_units(2, episodes=3))
    played = []
    bench.start(0)
    while not bench.scheduler.done:
        assert bench.scheduler.stopped is None
        played.append(bench.at(0))
        deadly = (0, 1) in [(e.seed, e.index) for e in bench.tasks[0].unit.episodes]
        if deadly and not bench.tasks[0].skip:
            bench.lose(0)
            bench.revive()
        else:
            bench.finish(0)
    whole, alone = (0, (0, 1, 2)), [(0, (k,)) for k in range(3)]
    assert played == [whole, whole, alone[0], alone[1], alone[1], alone[2], whole, (1, (0, 1, 2))]
    assert bench.committed == [0, 1]
    assert bench.failed == {"scenario0.rule.oracle.0.1": DIED}


def test_a_unit_of_one_episode_is_blamed_after_four_deaths_and_recorded() -> None:
    bench = Bench(make_units(2))
    bench.start(0)
    for _ in range(4):
        assert bench.at(0)[0] == 0
        assert not bench.tasks[0].skip
        bench.lose(0)
        bench.revive()
    assert bench.tasks[0].skip == {"scenario0.rule.oracle.0.0": DIED}
    bench.finish(0)
    bench.finish(0)
    assert bench.committed == [0, 1]


def test_a_unit_that_dies_only_as_a_whole_is_failed_as_a_whole() -> None:
    bench = Bench(make_units(2, episodes=2))
    bench.start(0)
    while not bench.scheduler.done:
        if len(bench.tasks[0].unit.episodes) == 2 and bench.at(0)[0] == 0 and not bench.tasks[0].skip:
            bench.lose(0)
            bench.revive()
        else:
            bench.finish(0)
    assert bench.failed == {"scenario0.rule.oracle.0.0": DIED, "scenario0.rule.oracle.0.1": DIED}


def test_a_slot_that_keeps_dying_stops_the_run_with_the_first_cause() -> None:
    """Five units in a row, so that no unit is to blame."""
    bench = Bench(make_units(9), slots=2, limits=Limits(slot_deaths=5))
    bench.start(0, 1)
    for n in range(5):
        assert bench.scheduler.stopped is None
        bench.lose(0, f"death number {n}")
        if n < 4:
            bench.finish(1)  # takes the unit away from slot 0
            bench.revive()
    assert bench.scheduler.stopped == "workers keep failing (5 in a row in one slot), the first: death number 0"


def test_success_forgives_a_slot() -> None:
    bench = Bench(make_units(50))
    bench.start(0)
    for _ in range(20):
        bench.lose(0)
        bench.revive()
        bench.finish(0)
    assert bench.scheduler.stopped is None


def test_preemption_charges_nobody() -> None:
    bench = Bench(make_units(2))
    bench.start(0)
    for _ in range(100):
        bench.lose(0, "node drained", preempted=True)
        bench.revive()
        assert bench.at(0) == (0, (0,))
    bench.finish(0)
    bench.finish(0)
    assert bench.failed == {}
    assert bench.scheduler.done


def test_a_lost_node_is_no_units_fault() -> None:
    bench = Bench(make_units(2), slots=2)
    bench.start(0, 1)
    for _ in range(4):
        bench.lose(0, "socket closed", unreachable=True)
        bench.revive()
        assert bench.at(0) == (0, (0,))
    bench.finish(0)
    assert (bench.failed, bench.scheduler.stopped) == ({}, None)


def test_nodes_that_are_lost_without_end_stop_the_run() -> None:
    bench = Bench(make_units(2))
    bench.start(0)
    for _ in range(5):
        assert bench.scheduler.stopped is None
        bench.lose(0, "socket closed", unreachable=True)
        bench.pass_time(15.0)
        if bench.starting:
            bench.start(0)
    assert bench.scheduler.stopped == "workers keep failing (5 in a row in one slot), the first: socket closed"


def test_a_worker_that_cannot_be_started_stops_the_run_after_three_tries() -> None:
    bench = Bench(make_units(2))
    for n in range(3):
        assert bench.scheduler.stopped is None
        bench.fail_start(0, Failure("void", f"engine lost {n}"))
        bench.pass_time(15.0)
    assert bench.scheduler.stopped == "no worker can be started (3 tries): engine lost 0"
    assert bench.scheduler.commands(bench.now + 100) == []


def test_workers_that_are_placed_on_a_dead_node_have_half_a_minute_before_the_run_stops() -> None:
    """Ray takes 15 to 20 s to see that a node is dead, and goes on placing workers there."""
    bench = Bench(make_units(2))
    begun = bench.now
    for n in range(8):
        assert bench.scheduler.stopped is None
        bench.lose(0, f"died unexpectedly {n}")
        tried = bench.now
        while not bench.starting and bench.scheduler.stopped is None:
            bench.pass_time(0.25)
    assert bench.scheduler.stopped == "no worker can be started (8 tries): died unexpectedly 0"
    assert 25 < tried - begun < 60


def test_one_cause_three_times_in_a_row_stops_the_run_and_names_it() -> None:
    bench = Bench(make_units(9), slots=3)
    bench.start(0, 1, 2)
    for slot in range(3):
        assert bench.scheduler.stopped is None
        bench.fail(slot, Failure("error", f"ValueError: bad weights path X (process {slot})"))
    assert bench.scheduler.stopped == (
        "3 tries in a row failed by one cause: ValueError: bad weights path X (process 0)"
    )


def test_a_constructor_that_raises_is_known_from_the_start_too() -> None:
    bench = Bench(make_units(9), slots=3)
    for slot in range(3):
        bench.fail_start(slot, Failure("error", "ValueError: bad weights path X"))
    assert bench.scheduler.stopped == "3 tries in a row failed by one cause: ValueError: bad weights path X"


def test_a_systemic_failure_stops_at_once() -> None:
    bench = Bench(make_units(9), slots=2)
    bench.start(0, 1)
    bench.fail(1, Failure("systemic", "disk full"))
    assert bench.scheduler.stopped == "disk full"


def test_void_tries_are_repeated_and_then_failed() -> None:
    bench = Bench(make_units(2))
    bench.start(0)
    for _ in range(4):
        bench.fail(0, Failure("void", "EngineLost: gone"))
        bench.pass_time(15.0)
    bench.finish(0)
    bench.finish(0)
    assert bench.failed == {"scenario0.rule.oracle.0.0": "EngineLost: gone"}


def test_three_failed_episodes_in_a_row_stop_and_a_completed_one_between_does_not() -> None:
    failed = ("environment", "OSError: no such level 7")
    bench = Bench(make_units(2, episodes=5))
    bench.start(0)
    bench.finish(0, {f"scenario0.rule.oracle.0.{k}": failed for k in (0, 1, 3, 4)})
    assert bench.scheduler.stopped is None
    bench.finish(0, {"scenario0.rule.oracle.1.0": failed})
    assert bench.scheduler.stopped == ("3 episodes in a row failed by one cause: environment: OSError: no such level 7")
    assert bench.committed == [0, 1], "what is played is kept"


def test_blamed_episodes_count_once() -> None:
    """Two blamed in one unit, one more failed by their cause later, would be three only if the report counted too."""
    bench = Bench(make_units(3, episodes=2), limits=Limits(slot_deaths=99))
    bench.start(0)
    while not bench.committed:
        if bench.tasks[0].skip.keys() >= set(episode_ids(bench.tasks[0].unit)):
            bench.finish(0)
        else:
            bench.lose(0)
            bench.revive()
    assert bench.scheduler.stopped is None
    assert len(bench.failed) == 2


def test_a_silent_worker_is_killed_and_its_unit_played_elsewhere() -> None:
    bench = Bench(make_units(9), slots=2, limits=Limits(stall_s=10, first_decision_s=30))
    bench.start(0, 1)
    assert bench.scheduler.wait_s(bench.now) == 30
    bench.pass_time(29.9)
    assert bench.killed == []
    bench.finish(1)
    bench.pass_time(0.1)
    assert bench.killed == [0]
    bench.finish(1)
    assert bench.at(1)[0] == 0


def test_each_decision_puts_the_deadline_off_and_repeats_do_not() -> None:
    bench = Bench(make_units(1), limits=Limits(stall_s=10, first_decision_s=30))
    bench.start(0)
    for decisions, at in ((0, 1.0), (1, 20.0), (5, 29.0), (5, 38.0)):
        bench.now = at
        bench.scheduler.feed(Progressed(0, decisions), bench.now)
    assert bench.scheduler.wait_s(bench.now) == pytest.approx(1.0)


def test_each_silence_is_told_once_and_says_when_it_is_too_long() -> None:
    bench = Bench(make_units(1), limits=Limits(stall_s=100, first_decision_s=300, quiet_s=30))
    bench.start(0)
    assert [bench.scheduler.silences(at) for at in (29.0, 30.0, 31.0)] == [
        [],
        ["worker 0 has made no decision for 30 s; it is ended after 300 s without one"],
        [],
    ]
    bench.scheduler.feed(Progressed(0, 1), 40.0)
    assert bench.scheduler.silences(69.0) == []
    assert bench.scheduler.silences(70.0) == [
        "worker 0 has made no decision for 30 s; it is ended after 100 s without one"
    ]
    bench.finish(0)
    assert bench.scheduler.silences(1000.0) == []


def test_a_worker_at_home_gets_no_setting_up_time() -> None:
    bench = Bench(make_units(4, groups=2), limits=Limits(stall_s=10, first_decision_s=30))
    bench.start(0)
    for patience_s in (10, 30):
        bench.finish(0)
        bench.pass_time(patience_s - 0.1)
        assert bench.killed == []
    bench.finish(0)
    bench.pass_time(10)
    assert bench.killed == [0]


def wait_for_a_place(bench: Bench, *slots: int) -> None:
    for slot in slots:
        bench.scheduler.feed(Waiting(slot), bench.now)
    bench.obey()


def test_the_time_to_start_begins_once_there_is_a_place() -> None:
    bench = Bench(make_units(1), limits=Limits(start_s=10))
    for _ in range(5):
        bench.pass_time(9.0)
        wait_for_a_place(bench, 0)
    assert bench.killed == []
    bench.pass_time(10.0)
    assert bench.killed == [0]


def test_who_waits_for_a_place_keeps_nobody_from_being_started() -> None:
    bench = Bench(make_units(9), slots=9, limits=Limits(starting=2))
    assert bench.starting == {0, 1}
    wait_for_a_place(bench, 0, 1)
    assert bench.starting == {0, 1, 2, 3}


def test_places_are_called_off_as_units_dwindle() -> None:
    bench = Bench(make_units(3), slots=3, limits=Limits(starting=3))
    wait_for_a_place(bench, 0, 1, 2)
    bench.start(0)
    assert (bench.starting, bench.killed) == ({1, 2}, [])
    bench.finish(0)
    assert (bench.starting, bench.killed) == ({1}, [2])
    bench.finish(0)
    assert (bench.starting, bench.killed) == (set(), [2, 1])
    bench.lose(0)
    assert bench.starting == {1}


def test_a_slot_that_was_added_gets_a_worker() -> None:
    bench = Bench(make_units(3), slots=1)
    bench.start(0)
    bench.scheduler.grow(2)
    bench.obey()
    assert bench.starting == {1}
    bench.start(1)
    assert {task.unit.number for task in bench.sent} == {0, 1}
    bench.scheduler.grow(1)
    assert bench.scheduler.live == 2


def test_a_unit_costs_the_same_steps_however_many_workers_there_are() -> None:
    few, many = (_calls_for_a_unit(slots) for slots in (10, 500))
    assert many < 1.5 * few


def _calls_for_a_unit(slots: int) -> float:
    """Python calls of the scheduler for each unit, once all workers are busy: a count, not a time."""
    bench = Bench(make_units(slots + 200), slots=slots, limits=Limits(starting=slots))
    bench.start(*range(slots))
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    for n in range(200):
        bench.now += 0.01
        bench.finish(n % slots)
        bench.scheduler.wait_s(bench.now)
        bench.scheduler.silences(bench.now)
    sys.setprofile(None)
    return calls / 200


def test_a_unit_has_a_last_moment_whatever_it_decides() -> None:
    bench = Bench(make_units(2), limits=Limits(unit_s=25))
    bench.start(0)
    for second in range(25):
        bench.now = float(second)
        bench.scheduler.feed(Progressed(0, second + 1), bench.now)
        bench.obey()
    assert bench.killed == []
    bench.pass_time(1.0)
    assert bench.killed == [0]


def test_a_worker_that_never_comes_up_is_given_up_only_if_none_is_there() -> None:
    bench = Bench(make_units(9), slots=2, limits=Limits(start_s=10, failed_starts=1, stall_s=999, first_decision_s=999))
    bench.start(0)
    bench.pass_time(10)
    assert bench.killed == [1]
    assert bench.scheduler.stopped is None
    alone = Bench(make_units(9), limits=Limits(start_s=10, failed_starts=1))
    alone.pass_time(10)
    assert alone.scheduler.stopped == "no worker can be started (1 tries): no worker was ready within 10 s"


def test_a_spent_worker_is_replaced_at_once_and_free_of_charge() -> None:
    bench = Bench(make_units(50))
    for n in range(20):
        bench.start(0)
        bench.finish(0, spent="1000 episodes")
        assert bench.killed == [0] * (n + 1)
        assert bench.starting == {0}
    assert bench.scheduler.stopped is None


def test_late_news_of_an_empty_slot_change_nothing() -> None:
    bench = Bench(make_units(2))
    bench.start(0)
    bench.lose(0)
    before = bench.scheduler.wait_s(bench.now)
    bench.scheduler.feed(Lost(0, "again"), bench.now)
    bench.scheduler.feed(Progressed(0, 9), bench.now)
    bench.scheduler.feed(Noted("hello"), bench.now)
    assert bench.scheduler.wait_s(bench.now) == before


def test_a_unit_whose_commit_is_refused_is_owed_again() -> None:
    bench = Bench(make_units(2))
    bench.start(0)
    bench.finish(0)
    bench.refuse()
    bench.finish(0)
    assert not bench.scheduler.done
    assert bench.at(0)[0] == 0
    bench.finish(0)
    assert bench.committed == [1, 0]
    assert bench.scheduler.done


def test_a_unit_that_is_refused_three_times_stops_the_run() -> None:
    bench = Bench(make_units(1))
    bench.start(0)
    for _ in range(3):
        assert bench.scheduler.stopped is None
        bench.finish(0)
        bench.refuse()
    assert bench.scheduler.stopped == "unit 0 could not be committed (3 tries): files missing"


MISHAPS = (*("finish",) * 4, *("lose", "preempt", "node", "void", "spend", "hang", "fail episode", "refuse"))


@dataclass(frozen=True)
class Drawn:
    slots: int
    count: int
    episodes: int
    groups: int
    together: int
    alone: int


DRAWN = st.builds(Drawn, *(st.integers(low, high) for low, high in ((1, 4), (0, 8), (1, 3), (1, 3), (1, 2), (1, 2))))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), drawn=DRAWN)
def test_whatever_dies_each_unit_ends_once_or_the_run_stops(data: st.DataObject, drawn: Drawn) -> None:
    units = make_units(drawn.count, drawn.episodes, drawn.groups)
    limits = Limits(DeathCaps(drawn.together, drawn.alone), stall_s=20, first_decision_s=20, longest_rest_s=1)
    bench = Bench(units, drawn.slots, limits)
    for _ in range(400):
        if bench.scheduler.done or bench.scheduler.stopped:
            break
        _something_happens(data, bench)
        _nobody_idles(bench)
    else:
        _all_goes_well_from_now_on(bench)
    assert len(bench.committed) == len(set(bench.committed)), "a unit was committed twice"
    if bench.scheduler.stopped is None:
        assert sorted(bench.committed) == [unit.number for unit in units]


def _something_happens(data: st.DataObject, bench: Bench) -> None:
    moves = [("start", s) for s in sorted(bench.starting)] + [("play", s) for s in sorted(bench.tasks)]
    if not moves:
        bench.pass_time(1.0)
        return
    move, slot = data.draw(st.sampled_from(moves))
    if move == "start":
        bench.start(slot) if data.draw(st.integers(0, 5)) else bench.lose(slot, "no start")
        return
    mishap = data.draw(st.sampled_from(MISHAPS))
    first = episode_ids(bench.tasks[slot].unit)[0]
    match mishap:
        case "finish":
            bench.finish(slot)
        case "refuse":
            before = len(bench.committed)
            bench.finish(slot)
            if len(bench.committed) > before:
                bench.refuse()
        case "fail episode":
            bench.finish(slot, {first: ("policy", "X")})
        case "spend":
            bench.finish(slot, spent="old")
        case "void":
            bench.fail(slot, Failure("void", "EngineLost: gone"))
        case "hang":
            bench.pass_time(20.0)
        case _:
            bench.lose(slot, preempted=mishap == "preempt", unreachable=mishap == "node")
    bench.pass_time(data.draw(st.sampled_from((0.0, 1.0))))


def _nobody_idles(bench: Bench) -> None:
    """With all pauses over, a ready worker without a task means that no unit waits."""
    if bench.scheduler.stopped:
        return
    bench.pass_time(1.0)
    in_flight = len({task.unit.number for task in bench.tasks.values()})
    assert in_flight == len(bench.tasks), "one unit in two places"
    if bench.ready and not bench.scheduler.stopped:
        assert in_flight + len(bench.committed) == bench.scheduler.planned, "a worker idles while a unit waits"


def _all_goes_well_from_now_on(bench: Bench) -> None:
    for _ in range(1000):
        if bench.scheduler.done or bench.scheduler.stopped:
            return
        for slot in sorted(bench.starting):
            bench.start(slot)
        for slot in sorted(bench.tasks):
            bench.finish(slot)
        bench.pass_time(1.0)
    raise AssertionError("it never ends")


def test_units_may_come_later_and_workers_be_made_ahead_of_them() -> None:
    bench = Bench([], slots=3, limits=Limits(ahead=2))
    assert (bench.starting, bench.scheduler.done) == ({0, 1}, True)
    bench.start(0, 1)
    assert bench.starting == set(), "no more than two ahead"
    bench.scheduler.add(make_units(1)[0])
    assert not bench.scheduler.done
    bench.obey()
    bench.finish(0)
    assert (bench.committed, bench.scheduler.done) == ([0], True)


@pytest.mark.parametrize(("kind", "by_budget"), [("budget", True), ("systemic", False)])
def test_a_task_that_was_halted_gives_its_part_and_stops_the_run(kind: FailureKind, by_budget: bool) -> None:
    bench = Bench(make_units(3), slots=2)
    bench.start(0, 1)
    task = bench.tasks.pop(0)
    bench.ready.add(0)
    report = bench.scheduler.feed(Finished(0, report_of(task), halted=Failure(kind, "10 calls are spent")), 0.0)
    assert report is not None
    assert (bench.scheduler.stopped, bench.scheduler.budget_spent) == ("10 calls are spent", by_budget)
    assert bench.scheduler.busy, "the other worker has its task still"
    bench.finish(1)
    assert bench.committed == [1]
    assert not bench.scheduler.busy
    assert not bench.scheduler.done
    assert bench.tasks == {}, "nothing new is begun"


def test_any_number_of_episodes_may_fail_where_no_limit_is_set() -> None:
    bench = Bench(make_units(9), limits=Limits(failed_episodes=None))
    bench.start(0)
    for number in range(9):
        bench.finish(0, {f"scenario0.rule.oracle.{number}.0": ("grading", "not_json")})
    assert (bench.scheduler.stopped, len(bench.failed)) == (None, 9)
