"""Who gets which GPU, on a pretended cluster: Ray hands out devices that nobody has, and hides those not handed out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.console import ROOT, rollouts

MEETING = "ROLLOUTS_TEST_MEETING"

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
QUIET = {"RAY_AUTH_MODE": "disabled"}


@pytest.fixture(scope="module")
def address(ray_dir: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A head without GPUs, and a node with two of them. Workers have their node's environment."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 4, "num_gpus": 0, "include_dashboard": False, "temp_dir": ray_dir}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv(MEETING, str(tmp_path_factory.mktemp("meeting")))
        nodes = Cluster(initialize_head=True, head_node_args=head)
        nodes.add_node(num_cpus=4, num_gpus=2)
    yield str(nodes.address)
    nodes.shutdown()


def played(folder: Path, address: str, *words: str) -> dict[str, list[dict[str, Any]]]:
    """What was told, by the name of the policy: once for each actor."""
    game = ("--scenario", "defend_the_center", "--frames", "none", "--seeds", "0:24", "--step-cap", "2")
    place = ("--address", address, "--cpus-per-actor", "0.5", "--episodes-per-unit", "1", "--run-id", "r")
    rollouts(folder, "run", *game, *place, *words, **QUIET)
    steps = pd.read_parquet(folder / "runs/r/steps")
    episodes = pd.read_parquet(folder / "runs/r/episodes")
    asked = steps[steps["asked"]].merge(episodes[["episode_id", "actor"]], on="episode_id")
    rows = asked.drop_duplicates(["policy", "actor"])
    return {policy: [json.loads(text) for text in told] for policy, told in rows.groupby("policy")["raw_reply"]}


def test_four_actors_share_a_gpu_and_its_memory(tmp_path: Path, address: str) -> None:
    words = ("--policy", "tests.gpu_probe:Gathered", "--gpus-per-actor", "0.25", "--actors", "8")
    told = played(tmp_path, address, *words)["probe"]
    assert Counter(actor["visible"] for actor in told) == {"0": 4, "1": 4}
    assert {actor["fraction"] for actor in told} == {0.25}


def test_servers_have_the_gpus_and_the_actors_see_none(tmp_path: Path, address: str) -> None:
    """Two servers with half a GPU each, also for what a mixture asks; who owns what they do not hold has none."""
    served = "tests.gpu_probe:Served"
    policies = ("--policy", served, "--policy", f"mixture:0.5:{served}", "--policy", "tests.gpu_probe:Probe")
    servers = ("--policy-server", "2", "--policy-server-gpus", "0.5", "--actors", "3")
    told = played(tmp_path, address, *policies, *servers)
    assert told["served"]
    assert told["mixture:0.5:served"]
    servers_told = told["served"] + told["mixture:0.5:served"]
    assert {server["visible"] for server in servers_told} <= {"0", "1"}
    assert {server["fraction"] for server in servers_told} == {0.5}
    assert len({server["pid"] for server in servers_told}) <= 2
    assert {(actor["visible"], actor["fraction"]) for actor in told["probe"]} == {("", None)}


def test_more_than_there_are_is_refused(tmp_path: Path, address: str) -> None:
    words = ("run", "--address", address, "--policy", "tests.gpu_probe:Served", "--frames", "none")
    done = rollouts(tmp_path, *words, "--gpus-per-actor", "0.25", "--actors", "9", code=2, **QUIET)
    assert "asked for 9 actors of 1 CPU and 0.25 GPUs each" in done.stderr
    done = rollouts(tmp_path, *words, "--policy-server", "3", "--policy-server-gpus", "1", code=2, **QUIET)
    assert "--policy-server 3 with --policy-server-gpus 1: the nodes of Ray have 2 GPUs, which is room for 2" in (
        done.stderr
    )
