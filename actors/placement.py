"""Where actors live: spread over the nodes that are wished for, those that need no GPU away from GPUs; and how long a
place is waited for. Pure: nodes come in as numbers, options for Ray go out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.capacity import Node, Share
from rollouts.pools.pool import Failure, Noted

NODE_ID = "ray.io/node-id"
RAYS_OWN = "ray.io/"
TELL_AFTER_S = 15.0
TELL_EVERY_S = 60.0
_MOST_KINDS = 6


def matching(nodes: Sequence[Node], labels: Mapping[str, str]) -> list[Node]:
    """The nodes that have all of the labels."""
    return [node for node in nodes if labels.items() <= node.labels.items()]


def away_from_gpus(nodes: Sequence[Node], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Ray's options for an actor without a GPU: on a node that has none, as long as one has room, else on any. Ray
    gives each node its id as a label ("label-based scheduling", Ray 2.60)."""
    wanted = dict(labels or {})
    with_gpus = sorted(node.id for node in matching(nodes, wanted) if node.gpus)
    if not with_gpus or len(with_gpus) == len(matching(nodes, wanted)) or NODE_ID in wanted:
        return {"label_selector": wanted} if wanted else {}
    first = {**wanted, NODE_ID: f"!in({', '.join(with_gpus)})"}
    return {"label_selector": first, "fallback_strategy": [{"label_selector": wanted}]}


@dataclass(frozen=True)
class Placement:
    """What the actors of a pool ask of a cluster: `share` of a node that has the `labels`. `nodes` tells those alive.

    After `timeout_s` (seconds) without a place for even one, there is no use in waiting.
    """

    nodes: Callable[[], Sequence[Node]]
    share: Share
    labels: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 600.0

    def room(self) -> int:
        """Actors that the nodes could hold if they were empty."""
        return sum(self.share.fits(node) for node in matching(self.nodes(), self.labels))

    def options(self) -> dict[str, Any]:
        """For Ray, of one actor that is to be made now."""
        found = {"label_selector": dict(self.labels)} if self.labels else {}
        if not self.share.gpus:
            found = away_from_gpus(self.nodes(), self.labels)
        return {"scheduling_strategy": "SPREAD", **found}

    def patience(self) -> Patience:
        return Patience(self.timeout_s, self.asked_and_offered)

    def asked_and_offered(self) -> str:
        """For people."""
        labels = " on a node with " + ", ".join(f"{k}={v}" for k, v in self.labels.items()) if self.labels else ""
        return f"each asks for {self.share}{labels}, and {offer(self.nodes())}"


def offer(nodes: Sequence[Node]) -> str:
    """What there is, for people: nodes of a kind are told together."""
    if not nodes:
        return "Ray has no node"
    kinds = Counter(_kind(node) for node in nodes).most_common()
    told = [f"{count} × {kind}" if count > 1 else kind for kind, count in kinds[:_MOST_KINDS]]
    more = [f"{len(kinds) - _MOST_KINDS} other kinds"] if len(kinds) > _MOST_KINDS else []
    return f"Ray has {len(nodes)} node{'' if len(nodes) == 1 else 's'}: {', '.join([*told, *more])}"


def _kind(node: Node) -> str:
    labels = ", ".join(f"{k}={v}" for k, v in sorted(node.labels.items()) if not k.startswith(RAYS_OWN))
    return f"[{Share(node.cpus, node.gpus)}{'; ' if labels else ''}{labels}]"


class Patience:
    """How long actors without a place have been waited for: what to tell people, and when it is too long."""

    def __init__(self, timeout_s: float, asked_and_offered: Callable[[], str]) -> None:
        self._timeout_s = timeout_s
        self._asked_and_offered = asked_and_offered
        self._since: float | None = None
        self._tell_at = 0.0

    def look(self, waiting: int, placed: int, now: float | None = None) -> Noted | Failure | None:
        """`waiting` actors have no place, `placed` have one; a failure where none has had one for too long."""
        now = time.monotonic() if now is None else now
        if not waiting:
            self._since = None
            return None
        if self._since is None:
            self._since, self._tell_at = now, now + TELL_AFTER_S
        if placed:
            self._since = now
        elif now - self._since >= self._timeout_s:
            told = f"no node has had room for an actor within {self._timeout_s:g} s (--placement-timeout)"
            return Failure("systemic", f"{told}: {self._asked_and_offered()}")
        if now < self._tell_at:
            return None
        self._tell_at = float("inf") if placed else now + TELL_EVERY_S
        return Noted(f"{waiting} of {waiting + placed} actors wait for a node: {self._asked_and_offered()}")
