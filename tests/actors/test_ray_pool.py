"""The pool on real actors, with players that do what the test says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from actors.capacity import Share
from actors.cluster import Cluster, ClusterSettings
from rollouts.driver import Outcome, Remark, RunEvent, drive
from rollouts.errors import UsageError
from rollouts.pools.patience import Limits
from rollouts.pools.pool import Pool
from tests.actors.players import MakeFake
from tests.pool_doubles import FakeCommits, make_units
from tests.processes import descendants, gone

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
HALF = Share(0.5, 0)
ACTOR = "ray::RolloutActor"
QUICK = Limits(rest_s=0.05, longest_rest_s=0.2, stall_s=1.0, first_decision_s=1.5)


@pytest.fixture(scope="module", autouse=True)
def cluster(ray_dir: str) -> Iterator[Cluster]:
    cluster = Cluster(ClusterSettings(cpus=2, temp_dir=ray_dir))
    yield cluster
    cluster.close()


def make_pool(make: MakeFake, slots: int = 2, most_episodes: int | None = None, together: int = 1) -> Pool:
    from actors.ray_pool import RayPool  # after the cluster is up

    share = Share(HALF.cpus / together, 0)
    return RayPool(make, slots, share, most_episodes, together=together, look_every_s=0.2)


def run(
    make: MakeFake, units: int = 8, slots: int = 2, limits: Limits = QUICK, together: int = 1
) -> tuple[Outcome, list[str]]:
    events: list[RunEvent] = []
    commits, pool = FakeCommits(), make_pool(make, slots, together=together)
    outcome = drive(make_units(units), pool, commits, limits=limits, on_event=events.append)
    assert len(commits.promoted) == outcome.committed
    return outcome, [event.text for event in events if isinstance(event, Remark)]


def test_plays_everything_and_leaves_no_actor() -> None:
    outcome, remarks = run(MakeFake(), units=200, slots=3)
    assert outcome == Outcome("complete", committed=200, owed=0, failed_episodes=0)
    assert remarks == []
    assert gone(ACTOR)


def test_a_killed_actor_costs_nothing_but_time(tmp_path: Path) -> None:
    outcome, remarks = run(MakeFake({2: "die", 5: "die"}, spared=str(tmp_path)))
    assert (outcome.state, outcome.failed_episodes) == ("complete", 0)
    assert len([r for r in remarks if "lost" in r]) == 2
    assert all("worker process has died" in r for r in remarks)


def test_an_episode_that_always_kills_its_actor_is_failed_alone() -> None:
    outcome, remarks = run(MakeFake({3: "die"}))
    assert (outcome.state, outcome.committed, outcome.failed_episodes) == ("complete", 8, 1)
    assert outcome.first_failure is not None
    assert outcome.first_failure.startswith("scenario0.rule.oracle.3.0: worker: The actor is dead because its worker")
    assert len(remarks) == 4


def test_a_hung_actor_is_killed_and_a_slow_one_is_not(tmp_path: Path) -> None:
    """The slow one needs 1.5 s, longer than a stall, but decides all the time."""
    outcome, remarks = run(MakeFake({1: "hang", 4: "slow"}, spared=str(tmp_path)))
    assert outcome.state == "complete"
    assert outcome.failed_episodes == 0
    (remark,) = remarks
    assert re.search(r": no decision for (1|1\.5) s: the engine, the environment or the policy hangs$", remark)
    assert gone(ACTOR)


def test_the_first_true_error_of_a_constructor_reaches_the_driver() -> None:
    started = time.monotonic()
    outcome, remarks = run(MakeFake(fault=ValueError("bad weights path X")))
    assert outcome.state == "stopped"
    assert outcome.cause == "3 tries in a row failed by one cause: ValueError: bad weights path X"
    assert all(remark.endswith("could not start: ValueError: bad weights path X") for remark in remarks)
    assert time.monotonic() - started < 15
    assert gone(ACTOR)


def test_the_first_true_error_of_a_task_reaches_the_driver() -> None:
    outcome, _ = run(MakeFake(dict.fromkeys(range(8), "raise")))
    assert outcome.cause == "3 tries in a row failed by one cause: ValueError: bad weights path X"


def test_a_usage_error_stops_at_once_in_its_own_words() -> None:
    outcome, _ = run(MakeFake(fault=UsageError("no model at models/p.onnx")))
    assert outcome.cause == "no model at models/p.onnx"


def test_a_worn_out_process_is_replaced_for_free() -> None:
    pool = make_pool(MakeFake(), slots=1, most_episodes=3)
    events: list[RunEvent] = []
    outcome = drive(make_units(8), pool, FakeCommits(), limits=QUICK, on_event=events.append)
    assert outcome.state == "complete"
    remarks = [event.text for event in events if isinstance(event, Remark)]
    assert remarks == ["worker 0 was ended: replaced after 3 episodes"] * 2


def test_actors_that_share_processes_play_everything_and_leave_none() -> None:
    processes: set[int] = set()
    assert gone(ACTOR), "of the test before"

    def look(_event: RunEvent) -> None:
        processes.update(process.pid for process in descendants(ACTOR))

    pool = make_pool(MakeFake(dict.fromkeys(range(6), "slow")), slots=6, together=3)
    outcome = drive(make_units(60), pool, FakeCommits(), limits=QUICK, on_event=look)
    assert outcome == Outcome("complete", committed=60, owed=0, failed_episodes=0)
    assert len(processes) == 2
    assert gone(ACTOR)


def test_of_those_who_share_a_process_only_the_episode_that_kills_it_is_failed() -> None:
    """All of them die with it twice; then each is played in a process of its own, and only one dies there again."""
    patient = Limits(rest_s=0.05, longest_rest_s=0.2)  # a process of one's own has to be started first
    outcome, remarks = run(MakeFake({3: "die"}), units=12, slots=4, together=4, limits=patient)
    assert (outcome.state, outcome.committed, outcome.failed_episodes) == ("complete", 12, 1)
    assert outcome.first_failure is not None
    assert outcome.first_failure.startswith("scenario0.rule.oracle.3.0: worker: The actor is dead because its worker")
    assert all("worker process has died" in remark for remark in remarks)


def test_who_shares_a_process_with_a_hung_game_is_not_charged(tmp_path: Path) -> None:
    make = MakeFake({1: "hang", 2: "slow", 5: "slow"}, spared=str(tmp_path))
    once = Limits(rest_s=0.05, longest_rest_s=0.2, stall_s=1.0, first_decision_s=1.5, slot_deaths=2)
    outcome, remarks = run(make, units=9, slots=3, together=3, limits=once)
    assert (outcome.state, outcome.failed_episodes) == ("complete", 0)
    assert len([remark for remark in remarks if "hangs" in remark]) == 1
    assert all("hangs" in remark or "taken away: its process was ended" in remark for remark in remarks)


def test_a_worn_out_process_is_replaced_by_one_for_as_many() -> None:
    events: list[RunEvent] = []
    processes: set[int] = set()
    assert gone(ACTOR), "of the test before"

    def look(event: RunEvent) -> None:
        events.append(event)
        processes.update(process.pid for process in descendants(ACTOR))

    pool = make_pool(MakeFake(dict.fromkeys(range(10), "slow")), slots=2, most_episodes=2, together=2)
    outcome = drive(make_units(10), pool, FakeCommits(), limits=QUICK, on_event=look)
    assert (outcome.state, outcome.committed) == ("complete", 10)
    remarks = [event.text for event in events if isinstance(event, Remark)]
    assert remarks
    assert {remark.partition(": ")[2] for remark in remarks} <= {f"replaced after {n} episodes" for n in (4, 5)}
    assert 2 <= len(processes) <= 4


def test_the_drivers_memory_does_not_grow_with_the_episodes() -> None:
    """What grew with them would grow each time; what an allocator takes at once does not."""
    process = psutil.Process()
    run(MakeFake(), units=200)
    grown = []
    for _ in range(3):
        before = process.memory_info().rss
        run(MakeFake(), units=500)
        grown.append(process.memory_info().rss - before)
    assert min(grown) < 500 * 4 * 2**10
