from dataclasses import replace

import pytest

from rollouts.doom.events import Counters, read_events
from rollouts.scenarios.scenario import PassiveLoss

BEFORE = Counters(health=60, ammo=10, kills=2, damage=40, items=0, weapon=2)
ACID = PassiveLoss(health=8, every_tics=32)


@pytest.mark.parametrize(
    ("change", "events"),
    [
        ({}, ()),
        ({"ammo": 9}, ()),
        ({"kills": 3}, ("kill",)),
        ({"health": 44, "damage": 56}, ("hit",)),
        ({"health": 85}, ("pickup",)),
        ({"health": 69, "damage": 56}, ("pickup", "hit")),
        ({"ammo": 20}, ("pickup",)),
        ({"ammo": 20, "weapon": 3}, ()),
        ({"items": 1}, ("pickup",)),
        ({"health": 52}, ()),
    ],
)
def test_events_come_from_differences(change: dict[str, int], events: tuple[str, ...]) -> None:
    assert read_events(BEFORE, replace(BEFORE, **change), died=False, tics=4, passive=None) == events


def test_all_at_once_keep_their_order() -> None:
    after = Counters(health=-2, ammo=20, kills=3, damage=102, items=0, weapon=2)
    assert read_events(BEFORE, after, died=True, tics=4, passive=None) == ("kill", "pickup", "hit", "death")


def test_a_death_without_any_change_is_still_a_death() -> None:
    assert read_events(BEFORE, BEFORE, died=True, tics=4, passive=None) == ("death",)


@pytest.mark.parametrize(("damage", "tics", "events"), [(8, 4, ()), (9, 4, ("hit",)), (16, 33, ()), (24, 64, ("hit",))])
def test_what_the_floor_takes_is_no_hit(damage: int, tics: int, events: tuple[str, ...]) -> None:
    after = replace(BEFORE, health=60 - damage, damage=40 + damage)
    assert read_events(BEFORE, after, died=False, tics=tics, passive=ACID) == events


def test_variables_that_the_scenario_lacks_make_no_events() -> None:
    blind = Counters(health=None, ammo=None, kills=None, damage=0, items=0, weapon=0)
    assert read_events(blind, replace(blind, damage=5), died=False, tics=4, passive=None) == ("hit",)
