"""Which options Ray is given for an actor, and how long a place is waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.capacity import Node, Share
from actors.placement import Patience, Placement, away_from_gpus, matching, offer
from rollouts.cli import main
from rollouts.pools.pool import Failure, Noted

CPU = Node("c", 4, 0, "c1", {"zone": "a", "ray.io/node-id": "c1"})
GPU = Node("g", 8, 2, "g1", {"zone": "a", "rollouts.node": "gpu", "ray.io/node-id": "g1"})
OTHER = Node("o", 4, 0, "o1", {"zone": "b"})


def test_nodes_have_all_labels_that_are_asked_for() -> None:
    nodes = [CPU, GPU, OTHER]
    assert matching(nodes, {}) == nodes
    assert matching(nodes, {"zone": "a"}) == [CPU, GPU]
    assert matching(nodes, {"zone": "a", "rollouts.node": "gpu"}) == [GPU]


def test_who_needs_no_gpu_goes_where_none_is_and_elsewhere_if_it_has_to() -> None:
    assert away_from_gpus([CPU, GPU]) == {
        "label_selector": {"ray.io/node-id": "!in(g1)"},
        "fallback_strategy": [{"label_selector": {}}],
    }
    assert away_from_gpus([CPU, GPU], {"zone": "a"}) == {
        "label_selector": {"zone": "a", "ray.io/node-id": "!in(g1)"},
        "fallback_strategy": [{"label_selector": {"zone": "a"}}],
    }


def test_there_is_nothing_to_prefer_where_all_nodes_are_alike() -> None:
    assert away_from_gpus([CPU, OTHER]) == {}
    assert away_from_gpus([GPU]) == {}
    assert away_from_gpus([GPU, OTHER], {"zone": "a"}) == {"label_selector": {"zone": "a"}}


def test_actors_with_a_gpu_are_left_to_ray_which_knows_where_there_is_one() -> None:
    placement = Placement(lambda: [CPU, GPU], Share(1, 0.5), {"zone": "a"})
    assert placement.options() == {"scheduling_strategy": "SPREAD", "label_selector": {"zone": "a"}}
    assert placement.room() == 4


def test_room_is_that_of_the_nodes_with_the_labels() -> None:
    assert Placement(lambda: [CPU, GPU, OTHER], Share(1, 0), {"zone": "a"}).room() == 12


def test_what_there_is_tells_nodes_of_a_kind_together_without_rays_own_labels() -> None:
    assert offer([]) == "Ray has no node"
    assert offer([CPU, CPU, GPU]) == (
        "Ray has 3 nodes: 2 × [4 CPUs; zone=a], [8 CPUs and 2 GPUs; rollouts.node=gpu, zone=a]"
    )
    assert offer([Node("x", n, 0) for n in range(1, 9)]).endswith("[6 CPUs], 2 other kinds")


def test_after_the_timeout_what_was_asked_for_and_what_there_is_are_told() -> None:
    placement = Placement(lambda: [CPU], Share(1, 1), {"zone": "a"}, timeout_s=100)
    patience = placement.patience()
    assert patience.look(2, 0, 0.0) is None
    assert patience.look(2, 0, 14.9) is None
    asked = "each asks for 1 CPU and 1 GPU on a node with zone=a, and Ray has 1 node: [4 CPUs; zone=a]"
    assert patience.look(2, 0, 15.0) == Noted(f"2 of 2 actors wait for a node: {asked}")
    assert patience.look(2, 0, 74.9) is None
    assert isinstance(patience.look(2, 0, 75.0), Noted)
    told = f"no node has had room for an actor within 100 s (--placement-timeout): {asked}"
    assert patience.look(2, 0, 100.0) == Failure("systemic", told)


def test_as_long_as_one_has_a_place_the_others_may_wait_and_it_is_told_once() -> None:
    patience = Patience(100, lambda: "asked")
    assert patience.look(3, 1, 0.0) is None
    assert patience.look(3, 1, 20.0) == Noted("3 of 4 actors wait for a node: asked")
    assert [patience.look(3, 1, at) for at in (100.0, 1_000.0, 10_000.0)] == [None, None, None]
    assert patience.look(4, 0, 10_099.0) is None
    assert isinstance(patience.look(4, 0, 10_100.0), Failure)


def test_who_has_a_place_again_is_waited_for_anew() -> None:
    patience = Patience(100, lambda: "asked")
    patience.look(1, 0, 0.0)
    assert patience.look(0, 1, 90.0) is None
    assert patience.look(1, 0, 100.0) is None
    assert patience.look(1, 0, 114.0) is None


def test_labels_are_for_a_cluster_that_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert main(["run", "--scenario", "basic", "--node-label", "zone=a"]) == 2
    told = "rollouts: --node-label zone=a is for a cluster that is joined: give its --address, for a Ray of our own is"
    assert capfd.readouterr().err == f"{told} this one machine\n"
    assert list(tmp_path.iterdir()) == []
