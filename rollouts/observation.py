"""What a snapshot looks like in words: the bucket table and the state texts made from it.

One plain sentence a fact. The bucket words are those of the tables below, upper bounds as written there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rollouts.records import DepthBands, Snapshot, Thing, ThingKind

Position = Literal["far left", "left", "centre", "right", "far right"]

MOST_MONSTERS = 3
MOST_ITEMS = 2
_PLACES: dict[Position, str] = {
    "far left": "far left",
    "left": "left",
    "centre": "centre, on the crosshair",
    "right": "right",
    "far right": "far right",
}
_RANKS = ("nearest", "second nearest", "third nearest")


def position(cx: float) -> Position:
    """The bucket of a horizontal centre in [0, 1]: < 0.20 far left, < 0.44 left, <= 0.56 centre, <= 0.80 right."""
    if cx < 0.20:
        return "far left"
    if cx < 0.44:
        return "left"
    if cx <= 0.56:
        return "centre"
    return "right" if cx <= 0.80 else "far right"


def distance(size: float) -> str:
    """The bucket of a relative height: > 0.45 point blank, > 0.25 close, > 0.12 medium, else far."""
    if size > 0.45:
        return "point blank"
    if size > 0.25:
        return "close"
    return "medium" if size > 0.12 else "far"


def clearance(depth: float) -> str:
    """The bucket of a median depth (0-255): < 12 wall directly ahead, < 24 wall near, < 45 some room, else open."""
    if depth < 12:
        return "wall directly ahead"
    if depth < 24:
        return "wall near"
    return "some room" if depth < 45 else "open"


def visible(snapshot: Snapshot, kind: ThingKind) -> tuple[Thing, ...]:
    """The things of one kind, nearest (largest) first."""
    return tuple(thing for thing in snapshot.things if thing.kind == kind)


def nearest(snapshot: Snapshot, kind: ThingKind) -> Thing | None:
    """The largest thing of one kind, None when none is in view."""
    for thing in snapshot.things:
        if thing.kind == kind:
            return thing
    return None


def describe_things(things: Sequence[Thing], kind: ThingKind, most: int) -> list[str]:
    """A sentence for each of the first `most` (at most 3) things, else one saying that none is visible."""
    if not things:
        return [f"No {kind} is visible."]
    return [
        f"The {_RANKS[i]} {kind} is a {thing.name}: {_PLACES[position(thing.cx)]}; range {distance(thing.size)}."
        for i, thing in enumerate(things[:most])
    ]


def describe_depth(depth: DepthBands | None) -> list[str]:
    """A sentence for each depth band; none without depth."""
    if depth is None:
        return []
    return [
        f"To the left: {clearance(depth.left)}.",
        f"Ahead: {clearance(depth.centre)}.",
        f"To the right: {clearance(depth.right)}.",
    ]


def describe_previous(action: str | None) -> list[str]:
    """The previous action, when there was one."""
    return [] if action is None else [f"The previous action was {action}."]


def describe_defend_the_center(snapshot: Snapshot, previous: str | None) -> str:
    """Up to 3 monsters, health, ammo, kills and the previous action."""
    facts = describe_things(visible(snapshot, "monster"), "monster", MOST_MONSTERS)
    facts.append(f"Health is {snapshot.health}.")
    facts.append(f"Ammo is {snapshot.ammo}.")
    facts.append(f"Kills so far: {snapshot.kills}.")
    return " ".join(facts + describe_previous(previous))


def describe_health_gathering(snapshot: Snapshot, previous: str | None) -> str:
    """Up to 2 items, the three depth bands, health and the previous action."""
    facts = describe_things(visible(snapshot, "item"), "item", MOST_ITEMS)
    facts += describe_depth(snapshot.depth)
    facts.append(f"Health is {snapshot.health}.")
    return " ".join(facts + describe_previous(previous))
