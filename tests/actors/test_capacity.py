"""What fits on the nodes, and what is said where it does not."""

from __future__ import annotations

import re

import pytest

from actors.capacity import Node, Share, choose_actors
from rollouts.errors import UsageError

FOUR_CPUS = [Node("a", 4, 0)]
TWO_GPUS = [Node("a", 16, 2)]


@pytest.mark.parametrize(
    ("node", "share", "fits"),
    [
        (Node("a", 4, 0), Share(1, 0), 4),
        (Node("a", 4, 0), Share(1.5, 0), 2),
        (Node("a", 1, 0), Share(0.1, 0), 10),
        (Node("a", 4, 0), Share(1, 0.1), 0),
        (Node("a", 16, 2), Share(1, 0.4), 4),
        (Node("a", 16, 2), Share(1, 0.5), 4),
        (Node("a", 16, 2), Share(1, 1), 2),
        (Node("a", 3, 2), Share(1, 0.25), 3),
        (Node("a", 0, 1), Share(0, 0.1), 10),
    ],
)
def test_one_node(node: Node, share: Share, fits: int) -> None:
    assert share.fits(node) == fits


def test_nodes_do_not_pool_their_parts() -> None:
    assert choose_actors([Node("a", 1.5, 0), Node("b", 1.5, 0)], Share(1, 0), None, grows=False) == 2


def test_by_default_as_many_as_fit() -> None:
    assert choose_actors(FOUR_CPUS, Share(0.5, 0), None, grows=False) == 8


def test_too_many_says_asked_available_and_what_to_change() -> None:
    with pytest.raises(UsageError) as told:
        choose_actors(FOUR_CPUS, Share(1, 0), 6, grows=False)
    assert str(told.value) == (
        "asked for 6 actors of 1 CPU each, but the 1 node of Ray has 4 CPUs and 0 GPUs, which is room for 4; "
        "use --actors 4 or fewer, or make --cpus-per-actor smaller, or add nodes"
    )


def test_the_fifth_at_two_fifths_of_a_gpu_does_not_fit() -> None:
    with pytest.raises(UsageError, match="room for 4"):
        choose_actors(TWO_GPUS, Share(1, 0.4), 5, grows=False)


def test_a_gpu_where_there_is_none() -> None:
    message = "no node can hold an actor of 1 CPU and 0.1 GPUs: the 1 node of Ray has 4 CPUs and 0 GPUs"
    with pytest.raises(UsageError, match=re.escape(message)):
        choose_actors(FOUR_CPUS, Share(1, 0.1), None, grows=False)


@pytest.mark.parametrize("share", [Share(-1, 0), Share(1, -0.5), Share(float("nan"), 0), Share(0, 0)])
def test_impossible_shares(share: Share) -> None:
    with pytest.raises(UsageError):
        choose_actors(FOUR_CPUS, share, 1, grows=False)


def test_an_autoscaler_may_yet_bring_nodes() -> None:
    assert choose_actors(FOUR_CPUS, Share(1, 0), 600, grows=True) == 600
    assert choose_actors([], Share(1, 0), None, grows=True) == 1


def test_labels_that_no_node_has_are_told_unless_such_nodes_may_come() -> None:
    told = "no node of Ray has --node-label zone=b: start nodes with `ray start --labels`, or leave it out"
    with pytest.raises(UsageError, match=re.escape(told)):
        choose_actors([], Share(1, 0), None, grows=False, labels={"zone": "b"})
    assert choose_actors([], Share(1, 0), 3, grows=True, labels={"zone": "b"}) == 3
