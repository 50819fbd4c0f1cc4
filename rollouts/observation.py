"""What a snapshot looks like in words: the bucket tables, and the state text made from them.

One plain sentence a fact. The bucket words are those of the tables below, upper bounds as written there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from rollouts.records import DepthBands, Snapshot, Thing, ThingKind

Position = Literal["far left", "left", "centre", "right", "far right"]
Range = Literal["point blank", "close", "medium", "far"]
Clearance = Literal["wall directly ahead", "wall near", "some room", "open"]
COUNTERS: tuple[str, ...] = ("health", "ammo", "kills")

MOST_SHOWN = 3
"""Things of one kind that a text can name."""
_RANKS = ("nearest", "second nearest", "third nearest")
_DEFAULT_WORDS = {
    "centre": "centre, on the crosshair",
    "health": "Health is",
    "ammo": "Ammo is",
    "kills": "Kills so far:",
}
WORDS: tuple[str, ...] = (
    *(*get_args(ThingKind), *get_args(Position), *get_args(Range)),
    *(*get_args(Clearance), *COUNTERS),
)
"""What a scenario can say in words of its own."""


def position(cx: float) -> Position:
    """The bucket of a horizontal centre in [0, 1]: < 0.20 far left, < 0.44 left, <= 0.56 centre, <= 0.80 right."""
    if cx < 0.20:
        return "far left"
    if cx < 0.44:
        return "left"
    if cx <= 0.56:
        return "centre"
    return "right" if cx <= 0.80 else "far right"


def distance(size: float) -> Range:
    """The bucket of a relative height: > 0.45 point blank, > 0.25 close, > 0.12 medium, else far."""
    if size > 0.45:
        return "point blank"
    if size > 0.25:
        return "close"
    return "medium" if size > 0.12 else "far"


def clearance(depth: float) -> Clearance:
    """The bucket of a median depth (0-255): < 12 wall directly ahead, < 24 wall near, < 45 some room, else open."""
    if depth < 12:
        return "wall directly ahead"
    if depth < 24:
        return "wall near"
    return "some room" if depth < 45 else "open"


def nearest(snapshot: Snapshot, what: str) -> Thing | None:
    """The largest thing of one kind or class name, None when none is in view."""
    for thing in snapshot.things:
        if what in (thing.kind, thing.name):
            return thing
    return None


@dataclass(frozen=True, slots=True)
class StateText:
    """Describes a snapshot: a scenario's `describe`.

    `things`: which kinds, and the most of each that is named (up to `MOST_SHOWN`). `depth`: whether the room to the
    left, ahead and to the right is told. `variables`: the counters and further engine variables that are told, in
    order; one that is None is left out. `names` maps class names, `words` those of `WORDS` and variables, to others.
    """

    things: tuple[tuple[ThingKind, int], ...]
    depth: bool = False
    variables: tuple[str, ...] = COUNTERS
    names: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, snapshot: Snapshot, previous: str | None) -> str:
        told = [self._things(snapshot, kind, most) for kind, most in self.things]
        if self.depth and snapshot.depth is not None:
            told.append(self._room(snapshot.depth))
        for name in self.variables:
            if (value := snapshot.value(name)) is not None:
                told.append(f"{self._label(name)} {value:g}.")
        if previous is not None:
            told.append(f"The previous action was {previous}.")
        return " ".join(told)

    def _word(self, word: str) -> str:
        return self.words.get(word) or _DEFAULT_WORDS.get(word, word)

    def _label(self, variable: str) -> str:
        return self.words.get(variable) or _DEFAULT_WORDS.get(variable, f"{variable} is")

    def _things(self, snapshot: Snapshot, kind: ThingKind, most: int) -> str:
        """A sentence for each of the first `most` things of that kind, else one saying that none is visible."""
        shown = [thing for thing in snapshot.things if thing.kind == kind][:most]
        return " ".join(map(self._thing, _RANKS, shown)) if shown else f"No {self._word(kind)} is visible."

    def _thing(self, rank: str, thing: Thing) -> str:
        name = self.names.get(thing.name, thing.name)
        article = "an" if name[0] in "AEIOUaeiou" else "a"
        where, how_near = self._word(position(thing.cx)), self._word(distance(thing.size))
        return f"The {rank} {self._word(thing.kind)} is {article} {name}: {where}; range {how_near}."

    def _room(self, depth: DepthBands) -> str:
        left, ahead, right = (self._word(clearance(band)) for band in (depth.left, depth.centre, depth.right))
        return f"To the left: {left}. Ahead: {ahead}. To the right: {right}."
