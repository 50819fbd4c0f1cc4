"""From the engine's raw buffers to what a snapshot holds: labels to things, depth to bands. No engine needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rollouts.records import DepthBands, Thing, ThingKind

CORPSE_PREFIX = "Dead"
VARIANT_SUFFIX = "Vzd"

_MONSTER_NAMES = (
    "Zombieman ShotgunGuy ChaingunGuy DoomImp Demon Spectre LostSoul Cacodemon HellKnight BaronOfHell Arachnotron "
    "PainElemental Revenant Fatso Archvile SpiderMastermind Cyberdemon WolfensteinSS CommanderKeen BossBrain"
)

_ITEM_NAMES = (
    "Medikit Stimpack HealthBonus ArmorBonus GreenArmor BlueArmor Soulsphere Megasphere Berserk InvulnerabilitySphere "
    "BlurSphere RadSuit Infrared Allmap Backpack Clip ClipBox Shell ShellBox RocketAmmo RocketBox Cell CellPack "
    "Chainsaw Pistol Shotgun SuperShotgun Chaingun RocketLauncher PlasmaRifle BFG9000 "
    "RedCard BlueCard YellowCard RedSkull BlueSkull YellowSkull"
)
MONSTERS = frozenset(_MONSTER_NAMES.split())
"""Doom's monster classes under the engine's names."""
ITEMS = frozenset(_ITEM_NAMES.split())
"""Doom's pickups under the engine's names: health, armour, powers, ammunition, weapons, keys."""


class Label(Protocol):
    """The part of an engine label that is read; x and width are pixels."""

    @property
    def object_name(self) -> str: ...
    @property
    def x(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...


class Kinds(dict[str, tuple[str, ThingKind | None]]):
    """Raw label name -> (name without its variant suffix, kind); None for the player, corpses, decorations, and what
    flies unless it is among `projectiles`."""

    def __init__(
        self, extra_monsters: Iterable[str] = (), extra_items: Iterable[str] = (), projectiles: Iterable[str] = ()
    ) -> None:
        self._monsters = MONSTERS | frozenset(extra_monsters)
        self._items = ITEMS | frozenset(extra_items)
        self._projectiles = frozenset(projectiles)

    def __missing__(self, raw_name: str) -> tuple[str, ThingKind | None]:
        found = self[raw_name] = self._judge(raw_name)
        return found

    def _judge(self, raw_name: str) -> tuple[str, ThingKind | None]:
        name = raw_name.removesuffix(VARIANT_SUFFIX)
        if name in self._monsters:
            return name, "monster"
        if name != raw_name and not name.startswith(CORPSE_PREFIX):
            return name, "monster"
        if name in self._projectiles:
            return name, "projectile"
        return name, "item" if name in self._items else None


def see_things(labels: Iterable[Label], kinds: Kinds, width: int, height: int) -> tuple[Thing, ...]:
    """Labels of a `width` x `height` frame as things, largest first (the engine's order among equals)."""
    things = []
    for label in labels:
        name, kind = kinds[label.object_name]
        if kind is not None:
            label_width, label_height = label.width, label.height
            if label_width and label_height:
                things.append(Thing(name, kind, (label.x + label_width / 2) / width, label_height / height))
    if len(things) > 1:
        things.sort(key=_size, reverse=True)
    return tuple(things)


def _size(thing: Thing) -> float:
    return thing.size


class DepthReader:
    """Exact medians of (height, width) uint8 depth buffers, with one scratch buffer for all of them.

    16-bit numbers take numpy's vector path: partitioning them is many times as fast as `np.median`.
    """

    def __init__(self, width: int, height: int) -> None:
        fifth = width // 5
        rows = height - 2 * (height // 3)
        self._rows = slice(height // 3, height // 3 + rows)
        self._columns = tuple(slice(start, start + fifth) for start in (0, (width - fifth) // 2, width - fifth))
        self._bands = np.empty((3, rows, fifth), np.uint16)
        self._flat = self._bands.reshape(3, -1)
        self._half = rows * fifth // 2
        self._odd = rows * fifth % 2 == 1

    def read(self, depth: NDArray[np.uint8]) -> DepthBands:
        """Medians over the middle third of the rows: the left, centre and right fifth of the columns."""
        middle = depth[self._rows]
        for band, columns in zip(self._bands, self._columns, strict=True):
            band[:] = middle[:, columns]
        self._flat.partition(self._half)
        upper = self._flat[:, self._half]
        lower = upper if self._odd else self._flat[:, : self._half].max(axis=1)
        return DepthBands(*((lower + upper) / 2).tolist())
