"""The pool that is this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from rollouts.driver import Remark, RunEvent, drive
from rollouts.errors import TryVoid
from rollouts.pools.local_pool import LocalPool
from rollouts.pools.patience import Limits
from rollouts.pools.pool import Failure, Finished, Started, StartFailed, Task, TaskFailed
from rollouts.pools.stall import Stalled, kill_engines, stall_watch
from rollouts.pools.wear import Wear
from rollouts.records import Unit, UnitReport
from rollouts.signals import GRACE_S, Signals
from tests.pool_doubles import FakeCommits, make_units, report_of

UNITS = make_units(3)


class Player:
    def __init__(self) -> None:
        self.decisions = 0
        self.closed = False

    def play(self, unit: Unit, attempt: str, skip: Mapping[str, str]) -> UnitReport:
        self.decisions += 1
        return report_of(Task(unit, attempt, skip))

    def close(self) -> None:
        self.closed = True


class Failing(Player):
    def play(self, unit: Unit, attempt: str, skip: Mapping[str, str]) -> UnitReport:
        raise ValueError(f"unit {unit.number}, attempt {attempt}, {len(skip)} skipped")


class Sleeping(Player):
    def play(self, unit: Unit, attempt: str, skip: Mapping[str, str]) -> UnitReport:
        if not skip:
            time.sleep(30)
        return super().play(unit, attempt, skip)


def started(pool: LocalPool) -> LocalPool:
    pool.start(0)
    assert list(pool.wait(0.0)) == [Started(0, "this process")]
    return pool


def test_plays_one_task_at_a_time() -> None:
    player = Player()
    pool = started(LocalPool(lambda: player))
    pool.send(0, task := Task(UNITS[1], "e1-4"))
    assert list(pool.wait(0.0)) == [Finished(0, report_of(task))]
    assert list(pool.wait(0.0)) == []
    pool.close()
    assert player.closed


def test_what_a_player_raises_is_an_event() -> None:
    pool = started(LocalPool(Failing))
    pool.send(0, Task(UNITS[1], "e1-4"))
    assert list(pool.wait(0.0)) == [TaskFailed(0, Failure("error", "ValueError: unit 1, attempt e1-4, 0 skipped"))]


def test_a_player_that_cannot_be_made_is_an_event_and_the_slot_is_empty() -> None:
    def make() -> Player:
        raise ValueError("bad weights path X")

    pool = LocalPool(make)
    for _ in range(2):
        pool.start(0)
        assert list(pool.wait(0.0)) == [StartFailed(0, Failure("error", "ValueError: bad weights path X"))]


def test_a_constructor_that_raises_stops_the_run_with_its_message() -> None:
    def make() -> Player:
        raise ValueError("bad weights path X")

    outcome = drive(UNITS, LocalPool(make), FakeCommits(), limits=Limits(rest_s=0.01))
    assert outcome.cause == "3 tries in a row failed by one cause: ValueError: bad weights path X"


def test_it_says_once_that_its_process_cannot_be_replaced() -> None:
    events: list[RunEvent] = []
    drive(UNITS, LocalPool(Player, wear=Wear(2, None)), FakeCommits(), on_event=events.append)
    assert [event.text for event in events if isinstance(event, Remark)] == [
        "2 episodes: the local pool cannot replace its process, use --pool ray for long runs"
    ]


def test_a_signal_interrupts_a_unit_in_the_middle() -> None:
    with Signals() as signals:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        player = Sleeping()
        outcome = drive(UNITS, LocalPool(lambda: player, signals), FakeCommits(), signals=signals)
    assert time.monotonic() - begun < GRACE_S
    assert (outcome.state, outcome.owed, outcome.signal) == ("interrupted", 3, signal.SIGINT)
    assert player.closed


@pytest.mark.slow
def test_a_player_that_hangs_ends_the_run_by_itself() -> None:
    limits = Limits(rest_s=0.01, longest_rest_s=0.01)
    outcome = drive(make_units(9), LocalPool(Sleeping, stall_s=0.05), FakeCommits(), limits=limits)
    assert outcome.state == "stopped"
    assert outcome.cause == (
        "3 episodes in a row failed by one cause: worker: no decision for 0.05 s: the environment or the policy hangs"
    )


def test_a_slow_player_is_left_alone() -> None:
    count = iter(range(10**6))

    def slow() -> Iterator[None]:
        for _ in range(30):
            time.sleep(0.01)
            yield

    with stall_watch(lambda: next(count), 0.1):
        assert len(list(slow())) == 30


def test_a_stall_is_void_and_the_old_alarm_comes_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(Stalled), stall_watch(lambda: 0, 0.05):
        time.sleep(10)
    assert issubclass(Stalled, TryVoid)
    assert signal.getsignal(signal.SIGALRM) == before


@pytest.fixture
def stopped_engine() -> Iterator[subprocess.Popen[bytes]]:
    """A child that names itself as the engine is named (PR_SET_NAME); a stopped one can only be killed."""
    script = "import ctypes,time; ctypes.CDLL(None).prctl(15, b'vizdoom'); print('up', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()
        engine.send_signal(signal.SIGSTOP)
        yield engine
        engine.kill()


def test_an_engine_is_killed_before_the_main_thread_is_disturbed(
    stopped_engine: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollouts.pools.stall._BIRTH_S", 0.0)
    with stall_watch(lambda: 0, 0.05):
        assert stopped_engine.wait(5) == -signal.SIGKILL
    assert kill_engines() == 0


def test_an_engine_that_may_still_be_starting_is_left_alone(stopped_engine: subprocess.Popen[bytes]) -> None:
    with pytest.raises(Stalled), stall_watch(lambda: 0, 0.05):
        time.sleep(10)
    assert stopped_engine.poll() is None
