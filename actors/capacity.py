"""How many actors the nodes can hold. Pure: nodes come in as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollouts.errors import UsageError

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Node:
    """What one node has altogether, used or not. `name` is for people, `id` is Ray's; `labels` are also Ray's own."""

    name: str
    cpus: float
    gpus: float
    id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def node_of(told: Mapping[str, Any]) -> Node:
    """From what `ray.nodes()` tells of a node."""
    resources = told["Resources"]
    name, cpus, gpus = told["NodeManagerHostname"], resources.get("CPU", 0.0), resources.get("GPU", 0.0)
    return Node(name, cpus, gpus, told["NodeID"], told.get("Labels") or {})


@dataclass(frozen=True, slots=True)
class Share:
    """What one actor takes. Below 1, several share a GPU; one never spreads over two."""

    cpus: float
    gpus: float

    def __str__(self) -> str:
        cpus = f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'}"
        return cpus if not self.gpus else f"{cpus} and {self.gpus:g} GPU{'' if self.gpus == 1 else 's'}"

    def check(self) -> None:
        """Errors: UsageError for what no actor can take."""
        for what, value in (("CPUs", self.cpus), ("GPUs", self.gpus)):
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"an actor cannot take {value:g} {what}: must be 0 or above")
        if self.cpus == 0 and self.gpus == 0:
            raise UsageError(
                "an actor that takes 0 CPUs and 0 GPUs has no limit: give it a share of a CPU, such as 0.1"
            )

    def fits(self, node: Node) -> int:
        """Actors that the empty node could hold."""
        by_cpu = math.floor(node.cpus / self.cpus + _ROUNDING) if self.cpus else None
        by_gpu = None
        if 0 < self.gpus < 1:
            by_gpu = math.floor(node.gpus) * math.floor(1 / self.gpus + _ROUNDING)
        elif self.gpus:
            by_gpu = math.floor(node.gpus / self.gpus + _ROUNDING)
        return min(limit for limit in (by_cpu, by_gpu) if limit is not None)


def choose_actors(
    nodes: Sequence[Node], share: Share, asked: int | None, grows: bool, labels: Mapping[str, str] | None = None
) -> int:
    """`asked`, or as many as fit on the `nodes`, which are those with the `labels`. `grows`: an autoscaler may add
    nodes, so nothing can be too much.

    Errors: UsageError with asked, available and what to change, where the nodes can never hold them.
    """
    share.check()
    if labels and not nodes and not grows:
        told = " ".join(f"--node-label {key}={value}" for key, value in labels.items())
        raise UsageError(f"no node of Ray has {told}: start nodes with `ray start --labels`, or leave it out")
    room = sum(share.fits(node) for node in nodes)
    if asked is None and room == 0 and not grows:
        raise UsageError(f"no node can hold an actor of {share}: {_offer(nodes)}; {_advice(share, 0)}")
    if asked is None:
        return max(room, 1)
    if asked > room and not grows:
        raise UsageError(
            f"asked for {asked} actors of {share} each, but {_offer(nodes)}, "
            f"which is room for {room}; {_advice(share, room)}"
        )
    return asked


def _offer(nodes: Sequence[Node]) -> str:
    cpus, gpus = sum(n.cpus for n in nodes), sum(n.gpus for n in nodes)
    verb = "has" if len(nodes) == 1 else "have"
    return f"the {len(nodes)} node{'' if len(nodes) == 1 else 's'} of Ray {verb} {cpus:g} CPUs and {gpus:g} GPUs"


def _advice(share: Share, room: int) -> str:
    fewer = f"use --actors {room} or fewer, or " if room else ""
    smaller = "--cpus-per-actor" + (" or --gpus-per-actor" if share.gpus else "")
    return f"{fewer}make {smaller} smaller, or add nodes"
