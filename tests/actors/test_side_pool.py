"""Lanes in real actors, with judges that do what the test says."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import Cluster, ClusterSettings
from rollouts.calls.limits import Limits as CallLimits
from rollouts.driver import Outcome, Remark, RunEvent, drive
from rollouts.errors import UsageError
from rollouts.pools.lanes import LanePool
from rollouts.pools.patience import DeathCaps, Limits
from rollouts.pools.pool import Finished, Lost, Started, Task
from tests.lane_doubles import MakeFakeJudge, SideCommitsDouble
from tests.pool_doubles import make_units
from tests.processes import descendants, gone

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
ACTOR = "ray::GraderActor"
QUICK = Limits(
    unit_deaths=DeathCaps(together=10**9),
    failed_episodes=None,
    rest_s=0.05,
    longest_rest_s=0.2,
    stall_s=1.5,
    first_decision_s=1.5,
)


@pytest.fixture(scope="module", autouse=True)
def cluster(ray_dir: str) -> Iterator[Cluster]:
    cluster = Cluster(ClusterSettings(cpus=2, temp_dir=ray_dir))
    yield cluster
    cluster.close()


def lanes_of(make: MakeFakeJudge, actors: int = 2, lanes: int = 3, governor: Any = None) -> LanePool:
    from actors.grader_actor import RemoteGraderActor  # after the cluster is up
    from actors.side_pool import RayLanes, Staff

    return RayLanes(make, Staff(RemoteGraderActor, actors, lanes, governor), look_every_s=0.3)


def run(pool: LanePool, units: int = 30) -> tuple[Outcome, list[str], SideCommitsDouble]:
    events: list[RunEvent] = []
    commits = SideCommitsDouble()
    outcome = drive(make_units(units), pool, commits, limits=QUICK, on_event=events.append, last_tasks_s=5)
    return outcome, [event.text for event in events if isinstance(event, Remark)], commits


def start_both(pool: LanePool) -> None:
    for slot in range(2):
        pool.start(slot)
    started: list[int] = []
    while len(started) < 2:
        started += [event.slot for event in pool.wait(0.2) if isinstance(event, Started)]


def test_all_lanes_of_all_actors_work_and_leave_nothing() -> None:
    outcome, remarks, commits = run(lanes_of(MakeFakeJudge(seconds=0.2)), units=60)
    assert outcome == Outcome("complete", committed=60, owed=0, failed_episodes=0)
    assert commits.units() == list(range(60))
    assert remarks == []
    assert gone(ACTOR)


def test_a_killed_actor_costs_its_units_only_time(tmp_path: Path) -> None:
    make = MakeFakeJudge(seconds=0.05, mishaps={4: "die", 17: "die"}, spared=str(tmp_path))
    outcome, remarks, commits = run(lanes_of(make))
    assert (outcome.state, outcome.failed_episodes) == ("complete", 0)
    assert commits.units() == list(range(30))
    assert {remark.partition(" lost: ")[2].partition(".")[0] for remark in remarks if "lost" in remark} == {
        "The actor is dead because its worker process has died"
    }


def test_an_actor_that_hangs_is_ended_with_all_its_lanes(tmp_path: Path) -> None:
    make = MakeFakeJudge(seconds=0.05, mishaps={5: "stop"}, spared=str(tmp_path))
    outcome, remarks, commits = run(lanes_of(make))
    assert outcome.state == "complete"
    assert commits.units() == list(range(30))
    assert any("hangs" in remark for remark in remarks)
    assert gone(ACTOR)


def test_an_actor_that_waits_long_is_left_alone() -> None:
    """A task of 3 s, longer than a stall, whose loop turns all the while."""
    outcome, remarks, _ = run(lanes_of(MakeFakeJudge(seconds=3.0), actors=1, lanes=2), units=2)
    assert (outcome.state, remarks) == ("complete", [])


def test_the_first_true_error_of_a_judge_that_cannot_be_made_reaches_the_driver() -> None:
    outcome, _, _ = run(lanes_of(MakeFakeJudge(fault=UsageError("no endpoint is known"))))
    assert (outcome.state, outcome.cause) == ("stopped", "no endpoint is known")
    assert gone(ACTOR)


def test_a_poisonous_unit_stops_the_line_at_last() -> None:
    outcome, remarks, _ = run(lanes_of(MakeFakeJudge(mishaps={0: "die"}), actors=1, lanes=1), units=3)
    assert outcome.state == "stopped"
    assert outcome.cause is not None
    assert outcome.cause.startswith("workers keep failing (5 in a row in one slot), the first: The actor is dead")
    assert len([remark for remark in remarks if "lost" in remark]) == 5


def test_what_a_killed_actor_had_in_flight_is_free_for_the_others() -> None:
    """One request in flight in all: the actor that has it is killed, the other one gets it."""
    from actors.governor import start_governor

    pool = lanes_of(MakeFakeJudge(seconds=0.3), actors=2, lanes=1, governor=start_governor(CallLimits(in_flight=1)))
    start_both(pool)
    first, second = make_units(2)
    pool.send(0, Task(first, "a"))
    time.sleep(0.1)
    pool.send(1, Task(second, "b"))
    before = descendants(ACTOR)
    assert len(before) == 2
    pool.kill(0)
    begun = time.monotonic()
    while not (finished := [event for event in pool.wait(0.1) if isinstance(event, Finished)]):
        assert time.monotonic() - begun < 10, "the turn of the dead one is still taken"
    assert [event.slot for event in finished] == [1]
    pool.close()
    assert gone(ACTOR)


def test_a_lane_that_shares_a_killed_actor_is_told_so() -> None:
    pool = lanes_of(MakeFakeJudge(seconds=5.0), actors=1, lanes=2)
    start_both(pool)
    pool.send(0, Task(make_units(1)[0], "a"))
    for process in descendants(ACTOR):
        os.kill(process.pid, signal.SIGKILL)
    lost: list[int] = []
    begun = time.monotonic()
    while len(lost) < 2 and time.monotonic() - begun < 10:
        lost += [event.slot for event in pool.wait(0.1) if isinstance(event, Lost)]
    assert sorted(lost) == [0, 1]
    pool.close()
