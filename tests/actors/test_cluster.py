"""Joining, starting and leaving Ray; nodes that die; folders that a node cannot see. Each in a process of its own,
since a process has one Ray."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


def run(code: str, ray_dir: str, timeout_s: float = 60.0, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT), "RAY_DIR": ray_dir, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


OWN = """
import os, time, psutil
from actors.cluster import Cluster, ClusterSettings
cluster = Cluster(ClusterSettings(cpus=3, temp_dir=os.environ["RAY_DIR"]))
family = psutil.Process().children(recursive=True)
print([(node.cpus, node.gpus) for node in cluster.nodes()], cluster.grows(), os.environ["RAY_AUTH_MODE"])
programs = [" ".join(process.cmdline()) for process in family if process.status() != psutil.STATUS_ZOMBIE]
print([sum(name in program for program in programs) for name in ("/gcs_server", "/log_monitor.py", "/dashboard.py")])
begun = time.monotonic()
cluster.close()
cluster.close()
print(time.monotonic() - begun < 5, len(psutil.wait_procs(family, timeout=5)[1]))
"""


def test_a_ray_of_our_own_has_a_token_and_leaves_nothing(ray_dir: str) -> None:
    done = run(OWN, ray_dir)
    assert done.stdout.splitlines() == ["[(3.0, 0.0)] False token", "[1, 0, 0]", "True 0"], done.stderr
    assert done.returncode == 0


KILLED = """
import os, subprocess, sys, psutil
from actors.cluster import Cluster, ClusterSettings
cluster = Cluster(ClusterSettings(cpus=1, temp_dir=os.environ["RAY_DIR"]))
store = "--object-store-name=" + cluster._ray.nodes()[0]["ObjectStoreSocketName"]
worker = [sys.executable, "-c", "import time; time.sleep(60)", store]
subprocess.Popen(worker, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(*(process.pid for process in psutil.Process().children(recursive=True)), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_ray_of_our_own_ends_with_a_killed_driver(ray_dir: str) -> None:
    """Also a worker that has only just been started, which knows nobody yet whose end it would see."""
    done = run(KILLED, ray_dir)
    assert done.returncode == -9
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) >= 5
    over = time.monotonic() + 5
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < over:
        time.sleep(0.05)
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


TOO_MANY = """
import os
from actors.cluster import ClusterSettings
from actors.opening import Wish, open_ray_pool
from rollouts.errors import UsageError
import psutil
try:
    open_ray_pool(None, Wish(ClusterSettings(cpus=4, temp_dir=os.environ["RAY_DIR"]), actors=6))
except UsageError as error:
    print(error)
print(psutil.Process().children(recursive=True))
"""


def test_asking_for_more_than_fits_is_refused_and_leaves_nothing(ray_dir: str) -> None:
    told = run(TOO_MANY, ray_dir).stdout.splitlines()
    assert told[0].startswith("asked for 6 actors of 1 CPU each, but the 1 node of Ray has 4 CPUs")
    assert told[1:] == ["[]"]


REFUSED = """
import os, psutil
from actors.cluster import Cluster, ClusterSettings
from rollouts.errors import UsageError
try:
    Cluster(ClusterSettings(address=os.environ.get("WHERE"), metrics_port=int(os.environ["PORT"])))
except UsageError as error:
    print(error)
print(psutil.Process().children(recursive=True))
"""


def test_a_port_for_metrics_that_is_taken_is_said_before_anything_starts(ray_dir: str) -> None:
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = run(REFUSED, ray_dir, PORT=port).stdout.splitlines()
    assert told == [f"--metrics-port {port} cannot be had: Address already in use", "[]"]


def test_a_cluster_that_is_joined_has_ports_for_metrics_of_its_own(ray_dir: str) -> None:
    told = run(REFUSED, ray_dir, PORT="9100", WHERE="127.0.0.1:6379").stdout.splitlines()
    assert told[0].startswith("--metrics-port 9100 is for a Ray of our own: 127.0.0.1:6379 is a cluster")


JOIN = """
import actors.cluster as cluster, os, time
from rollouts.errors import UsageError
cluster.JOIN_S = 3.0
begun = time.monotonic()
try:
    cluster.Cluster(cluster.ClusterSettings(address=os.environ["WHERE"]))
except UsageError as error:
    print(str(error).partition(":")[0] if "token" not in str(error) else str(error))
print(time.monotonic() - begun < 10)
"""


def test_nobody_at_the_address_is_said_at_once(ray_dir: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{unused.getsockname()[1]}"
        told = run(JOIN, ray_dir, WHERE=where).stdout.splitlines()
    assert told == ["no Ray listens at 127.0.0.1", "True"]


def test_who_never_answers_is_given_up(ray_dir: str) -> None:
    """As a Ray with another token does: it accepts, and nothing comes of it."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        threading.Thread(target=_accept_for_ever, args=(deaf,), daemon=True).start()
        where = f"127.0.0.1:{deaf.getsockname()[1]}"
        done = run(JOIN, ray_dir, WHERE=where, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0" * 64)
        deaf.shutdown(socket.SHUT_RDWR)
    lines = done.stdout.splitlines()
    assert "did not let us in within 3 s" in lines[0], done
    assert "RAY_AUTH_MODE is token" in lines[0]
    assert lines[1] == "True"


def _accept_for_ever(server: socket.socket) -> None:
    kept = []
    try:
        while True:
            kept.append(server.accept())
    except OSError:
        for connection, _ in kept:
            connection.close()


NODES = """
import os, sys
from ray.cluster_utils import Cluster as Nodes
quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300,
         "health_check_timeout_ms": 1000, "health_check_failure_threshold": 3}
nodes = Nodes(initialize_head=True, head_node_args={
    "num_cpus": 1, "include_dashboard": False, "_system_config": quick, "temp_dir": os.environ["RAY_DIR"]})
second = nodes.add_node(num_cpus=1)
from actors.capacity import Share
from actors.cluster import Cluster, ClusterSettings
from tests.actors.players import MakeFake
from tests.pool_doubles import FakeCommits, make_units
cluster = Cluster(ClusterSettings(address=nodes.address))
from actors.ray_pool import RayPool
"""

LOST_NODE = f"""{NODES}
from rollouts.driver import Committed, Remark, drive
from rollouts.pools.patience import Limits
import time
remarks, times = [], []
def tell(event):
    if isinstance(event, Remark):
        remarks.append(event.text)
    elif isinstance(event, Committed):
        times.append(time.monotonic())
        if len(times) == 3:
            nodes.remove_node(second, allow_graceful=False)
pool = RayPool(MakeFake(dict.fromkeys(range(12), "slow")), 2, Share(1, 0), on_close=cluster.close)
outcome = drive(make_units(12), pool, FakeCommits(), limits=Limits(rest_s=0.1), on_event=tell)
gaps = [after - before for before, after in zip(times[3:], times[4:])]
print(outcome.state, outcome.committed, outcome.failed_episodes, len(remarks) > 0, cluster.is_own, max(gaps) < 3.0)
nodes.shutdown()
"""


def test_when_half_the_actors_lose_their_node_the_rest_never_idle_and_complete_the_run(ray_dir: str) -> None:
    """A unit takes 1.5 s: so long, and a little, is the longest time between two commits of the actor that is left."""
    done = run(LOST_NODE, ray_dir, 120, RAY_AUTH_MODE="disabled")
    assert done.stdout.splitlines()[-1:] == ["complete 12 0 True False True"], done.stdout + done.stderr


BLIND = f"""{NODES}
from pathlib import Path
from actors.node_check import check_nodes_see
from rollouts.errors import UsageError
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import open_storage
class Elsewhere(RunFolder):
    def write_marker(self):
        return RunFolder(open_storage(os.environ["RAY_DIR"] + "/elsewhere"), self.run_id).write_marker()
out = open_storage(os.environ["RAY_DIR"] + "/out")
check_nodes_see(RunFolder(out, "run"))
try:
    check_nodes_see(Elsewhere(out, "run"))
except UsageError as error:
    print(error)
cluster.close()
nodes.shutdown()
"""


def test_a_folder_that_a_node_does_not_see_is_named_with_the_node(ray_dir: str) -> None:
    done = run(BLIND, ray_dir, 120, RAY_AUTH_MODE="disabled")
    (told,) = done.stdout.splitlines()
    assert "/out/run is not the same folder on every node: " in told
    assert f"{socket.gethostname()} (" in told
