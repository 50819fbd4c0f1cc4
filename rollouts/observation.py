"""What a snapshot looks like in words: the bucket table and the state texts made from it.

One plain sentence a fact. The bucket words are those of the tables below, upper bounds as written there.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def nearest(snapshot: Snapshot, kind: ThingKind) -> Thing | None:
    """The largest thing of one kind, None when none is in view."""
    for thing in snapshot.things:
        if thing.kind == kind:
            return thing
    return None


def describe_things(things: Iterable[Thing], kind: ThingKind, most: int) -> str:
    """A sentence for each of the first `most` (at most 3) things of that kind, else one saying that none is visible."""
    text, shown = "", 0
    for thing in things:
        if thing.kind == kind:
            where, how_near = _PLACES[position(thing.cx)], distance(thing.size)
            text += f"The {_RANKS[shown]} {kind} is a {thing.name}: {where}; range {how_near}. "
            shown += 1
            if shown == most:
                break
    return text[:-1] if text else f"No {kind} is visible."


def describe_depth(depth: DepthBands) -> str:
    """A sentence for each depth band."""
    left, ahead, right = clearance(depth.left), clearance(depth.centre), clearance(depth.right)
    return f"To the left: {left}. Ahead: {ahead}. To the right: {right}."


def describe_previous(action: str | None) -> str:
    """A sentence, after a blank, on the previous action; nothing when there was none."""
    return "" if action is None else f" The previous action was {action}."


def describe_defend_the_center(snapshot: Snapshot, previous: str | None) -> str:
    """Up to 3 monsters, health, ammo, kills and the previous action."""
    return (
        f"{describe_things(snapshot.things, 'monster', MOST_MONSTERS)} Health is {snapshot.health}. "
        f"Ammo is {snapshot.ammo}. Kills so far: {snapshot.kills}.{describe_previous(previous)}"
    )


def describe_health_gathering(snapshot: Snapshot, previous: str | None) -> str:
    """Up to 2 items, the three depth bands, health and the previous action."""
    depth = f"{describe_depth(snapshot.depth)} " if snapshot.depth else ""
    return (
        f"{describe_things(snapshot.things, 'item', MOST_ITEMS)} {depth}"
        f"Health is {snapshot.health}.{describe_previous(previous)}"
    )


def describe_status(snapshot: Snapshot) -> str:
    """Health, ammo and kills, those that the scenario has; nothing of what is in view."""
    known = (("Health is", snapshot.health), ("Ammo is", snapshot.ammo), ("Kills so far:", snapshot.kills))
    return " ".join(f"{words} {value}." for words, value in known if value is not None)
