"""What happened in a step, from the difference of the engine's counters before and after it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.scenarios.scenario import PassiveLoss


@dataclass(frozen=True, slots=True)
class Counters:
    """The engine's counters at one moment. Those that only grow may go on growing across episodes.

    `health`, `ammo` and `kills` are None where the scenario does not have them; `ammo` is never negative.
    `damage`: health points that were ever taken from the player; `items`: pickups that the game counts.
    """

    health: int | None
    ammo: int | None
    kills: int | None
    damage: int
    items: int
    weapon: int


def read_events(
    before: Counters, after: Counters, died: bool, tics: int, passive: PassiveLoss | None
) -> tuple[str, ...]:
    """The events of a step of `tics`, in the order kill, pickup, hit, death."""
    if after is before and not died:
        return ()
    damage = after.damage - before.damage
    happened = (
        ("kill", _rose(before.kills, after.kills)),
        ("pickup", _picked_up(before, after, damage)),
        ("hit", damage > _passive_damage(passive, tics)),
        ("death", died),
    )
    return tuple(name for name, is_so in happened if is_so)


def _rose(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before


def _picked_up(before: Counters, after: Counters, damage: int) -> bool:
    """Health beyond what damage took, more counted items, or more ammunition for the same weapon."""
    if after.items > before.items:
        return True
    if after.weapon == before.weapon and _rose(before.ammo, after.ammo):
        return True
    return before.health is not None and after.health is not None and after.health - before.health + damage > 0


def _passive_damage(passive: PassiveLoss | None, tics: int) -> int:
    """The most that the world itself can take in `tics`."""
    return 0 if passive is None else passive.health * -(-tics // passive.every_tics)
