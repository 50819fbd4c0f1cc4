"""Several pretended nodes on this machine: the data is that of one node, whoever joins gets work, whoever is taken away
gives it back, and nobody waits for ever for a place."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console import ROOT, command, environment, episodes, rollouts
from tests.node_probe import SEEN
from tests.same_rows import assert_same_data

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
OPEN = {"RAY_AUTH_MODE": "disabled"}
GAME = ("--scenario", "defend_the_center", "--frames", "png", "--step-cap", "20", "--grade", "none")
SLOW = (*GAME, "--policy", "tests.node_probe:Slow", "--episodes-per-unit", "1", "--run-id", "r")
PATIENCE_S = 60.0


class Nodes:
    """A head that plays nothing, and nodes that come and go."""

    def __init__(self, ray_dir: str, seen: Path) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "num_gpus": 0, "include_dashboard": False, "temp_dir": ray_dir}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._seen = seen
        self.address = str(self._cluster.address)

    def add(self, cpus: int, gpus: int = 0, labels: dict[str, str] | None = None) -> Any:
        return self._cluster.add_node(num_cpus=cpus, num_gpus=gpus, labels=labels or {})

    def remove(self, node: Any) -> None:
        self._cluster.remove_node(node)

    def take_away(self, node: Any) -> None:
        """As a provider does: at once."""
        self._cluster.remove_node(node, allow_graceful=False)

    def words(self, out: Path, *more: str, seeds: str = "0:20") -> tuple[str, ...]:
        """Of a run here; forgets who played before."""
        for told in self._seen.iterdir():
            told.unlink()
        return ("run", *SLOW, "--seeds", seeds, "--out", str(out), "--address", self.address, *more)

    @property
    def seen(self) -> set[str]:
        """Nodes on which was played."""
        return {path.name for path in self._seen.iterdir()}

    def shutdown(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes(ray_dir: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    seen = tmp_path_factory.mktemp("seen")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv(SEEN, str(seen))
        found = Nodes(ray_dir, seen)
        yield found
        found.shutdown()


@pytest.fixture(scope="module")
def one(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The run on one node with room for one actor, and that node."""
    out, node = tmp_path_factory.mktemp("one"), nodes.add(cpus=1)
    rollouts(out, *nodes.words(out), **OPEN)
    assert nodes.seen == {node.node_id}
    return out / "r", node


def begin(words: tuple[str, ...]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*words), env=environment(**OPEN), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def until(fact: Callable[[], bool]) -> None:
    over = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < over, "it does not come to pass"
        time.sleep(0.05)


def committed(run: Path) -> int:
    return len(list(run.glob("episodes/part-*.parquet")))


def test_the_data_of_four_nodes_is_that_of_one(nodes: Nodes, one: tuple[Path, Any], tmp_path: Path) -> None:
    others = [nodes.add(cpus=1) for _ in range(3)]
    rollouts(tmp_path, *nodes.words(tmp_path), **OPEN)
    assert nodes.seen == {one[1].node_id, *(node.node_id for node in others)}
    assert len({row["actor"] for row in episodes_of(tmp_path / "r")}) == 4
    assert_same_data(one[0], tmp_path / "r")
    for node in others:
        nodes.remove(node)


def episodes_of(run: Path) -> list[dict[str, Any]]:
    (run.parent / "runs").symlink_to(run.parent)
    return episodes(run.parent)


def test_a_node_that_joins_in_mid_run_gets_work(nodes: Nodes, one: tuple[Path, Any], tmp_path: Path) -> None:
    playing = begin(nodes.words(tmp_path, seeds="0:50"))
    until(lambda: committed(tmp_path / "r") > 0)
    assert nodes.seen == {one[1].node_id}
    late = nodes.add(cpus=1)
    out, _ = playing.communicate(timeout=PATIENCE_S)
    assert (playing.returncode, committed(tmp_path / "r")) == (0, 50), out
    assert nodes.seen == {one[1].node_id, late.node_id}
    nodes.remove(late)


def test_a_node_that_is_drained_gives_its_work_back_and_nobody_is_charged(
    nodes: Nodes, one: tuple[Path, Any], tmp_path: Path
) -> None:
    going = nodes.add(cpus=1)
    playing = begin(nodes.words(tmp_path))
    until(lambda: nodes.seen == {one[1].node_id, going.node_id})
    ray = Path(sys.executable).parent / "ray"
    words = ("drain-node", "--address", nodes.address, "--node-id", going.node_id, "--reason-message", "spot")
    ending = ("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--deadline-remaining-seconds", "30")
    subprocess.run([ray, *words, *ending], env=environment(**OPEN), check=True, timeout=PATIENCE_S)
    nodes.take_away(going)
    out, _ = playing.communicate(timeout=PATIENCE_S)
    assert playing.returncode == 0, out
    assert "taken away" in out
    assert not [line for line in out.splitlines() if " lost: " in line or "failed" in line], out
    assert_same_data(one[0], tmp_path / "r")


def test_labels_choose_the_nodes(nodes: Nodes, one: tuple[Path, Any], tmp_path: Path) -> None:
    assert one[1].node_id
    chosen = nodes.add(cpus=1, labels={"zone": "a"})
    rollouts(tmp_path, *nodes.words(tmp_path, "--node-label", "zone=a", seeds="0:2"), **OPEN)
    assert nodes.seen == {chosen.node_id}
    nodes.remove(chosen)


HOLD = """
import os, ray, time
ray.init(os.environ["WHERE"], log_to_driver=False)
@ray.remote(num_cpus=1)
class Hold:
    def held(self): return True
actor = Hold.remote()
print(ray.get(actor.held.remote()), flush=True)
time.sleep(100)
"""


def test_a_cluster_whose_room_others_have_is_not_waited_for_for_ever(
    nodes: Nodes, one: tuple[Path, Any], tmp_path: Path
) -> None:
    assert one[1].node_id
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD], env={**os.environ, **OPEN, "WHERE": nodes.address}, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        done = rollouts(tmp_path, *nodes.words(tmp_path, "--placement-timeout", "2", seeds="0:2"), code=1, **OPEN)
    finally:
        other.kill()
        other.communicate()
    told = (
        "no node has had room for an actor within 2 s (--placement-timeout): each asks for 1 CPU, and Ray has 2 nodes"
    )
    assert told in done.stderr
    again = rollouts(tmp_path, *nodes.words(tmp_path, seeds="0:2"), **OPEN)
    assert committed(tmp_path / "r") == 2, again.stderr


PENDING = """
import os, ray, time
ray.init(os.environ["WHERE"], log_to_driver=False)
from ray._private.state import actors
while True:
    found = [actor for actor in actors().values() if actor["State"] == "PENDING_CREATION"]
    print(len(found), flush=True)
    time.sleep(0.2)
"""


def test_where_nodes_come_when_they_are_needed_requests_follow_the_owed_units(
    nodes: Nodes, one: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of a group is one that an autoscaler made; here none comes, and what waits for one dwindles."""
    assert one[1].node_id
    monkeypatch.setenv("RAY_NODE_TYPE_NAME", "cpu")
    grouped = nodes.add(cpus=1)
    looking = subprocess.Popen(
        [sys.executable, "-c", PENDING],
        env={**os.environ, **OPEN, "WHERE": nodes.address},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        done = rollouts(tmp_path, *nodes.words(tmp_path, seeds="0:40"), **OPEN)
    finally:
        looking.terminate()
        told, _ = looking.communicate()
    waiting = [int(line) for line in told.splitlines()]
    assert "40 actors (ray)" in done.stderr
    assert max(waiting) > 8
    most = waiting.index(max(waiting))
    assert min(waiting[most:]) == 0
    assert len(set(waiting[most:])) > 4, waiting
    nodes.remove(grouped)


JUDGES = """
import os, ray
ray.init(os.environ["WHERE"], log_to_driver=False)
from actors.governor import start_governor
from actors.grader_actor import RemoteGraderActor
from actors.side_pool import RayLanes, Staff
from rollouts.calls.limits import Limits
governors = [start_governor(Limits()) for _ in range(4)]
lanes = RayLanes(None, Staff(RemoteGraderActor, 4, 1))
for slot in range(4):
    lanes.start(slot)
lanes.wait(20.0)
ray.get([governor.status.remote() for governor in governors])
from ray._private.state import actors
print(*(f"{actor['ActorClassName']}:{actor['Address']['NodeID']}" for actor in actors().values()))
"""

PLAYERS = """
import os, ray
ray.init(os.environ["WHERE"], log_to_driver=False)
from actors.capacity import Share
from actors.nodes import alive_nodes
from actors.placement import Placement
@ray.remote
class Player:
    def node(self): return ray.get_runtime_context().get_node_id()
placement = Placement(alive_nodes, Share(1, 0))
players = []
for _ in range(2):
    players.append(Player.options(num_cpus=1, **placement.options()).remote())
    print(ray.get(players[-1].node.remote()))
"""


def told_by(nodes: Nodes, code: str) -> list[str]:
    """The words that a driver on that cluster prints."""
    surroundings = {**os.environ, **OPEN, "WHERE": nodes.address}
    done = subprocess.run(
        [sys.executable, "-c", code], env=surroundings, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return done.stdout.split()


def test_who_needs_no_gpu_leaves_it_free_as_long_as_there_is_room_elsewhere(
    nodes: Nodes, one: tuple[Path, Any]
) -> None:
    """Graders and the governor take no CPU, so there always is; a second player finds the node of the first full."""
    gpu = nodes.add(cpus=8, gpus=1)
    places = [place.split(":") for place in told_by(nodes, JUDGES)]
    assert {"Governor", "GraderActor"} <= {kind for kind, node in places if node}
    assert gpu.node_id not in {node for _, node in places}
    assert told_by(nodes, PLAYERS) == [one[1].node_id, gpu.node_id]
    nodes.remove(gpu)
