"""The written rules: what a policy is told in each rubric mode, and the same rule as a teacher.

A mode changes what the policy is told, never the actions that it can choose.
`rule` states the whole decision rule with one criterion an action; `bare` states the goal and the actions only.
"""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.observation import nearest, position
from rollouts.records import Snapshot

RUBRICS: tuple[str, ...] = ("rule", "bare")

DEFEND_THE_CENTER: Mapping[str, str] = {
    "rule": (
        "You stand in the middle of a round arena and can only turn and shoot. Monsters come from all sides. "
        "Shoot as many as you can before you die; ammunition is limited.\n"
        "Look only at the nearest monster and choose by this rule:\n"
        "- attack: the nearest monster is in the centre, on the crosshair.\n"
        "- turn left: the nearest monster is left or far left, or no monster is visible.\n"
        "- turn right: the nearest monster is right or far right."
    ),
    "bare": (
        "You stand in the middle of a round arena and can only turn and shoot. Monsters come from all sides. "
        "Shoot as many as you can before you die; ammunition is limited.\n"
        "The actions are: attack, turn left, turn right."
    ),
}

HEALTH_GATHERING: Mapping[str, str] = {
    "rule": (
        "You stand on an acid floor that keeps taking your health. Medikits lie around; touching one restores some. "
        "Stay alive as long as you can.\n"
        "Look only at the nearest item and choose by this rule:\n"
        "- move forward: the nearest item is in the centre, on the crosshair.\n"
        "- turn left: the nearest item is left or far left.\n"
        "- turn right: the nearest item is right or far right, or no item is visible."
    ),
    "bare": (
        "You stand on an acid floor that keeps taking your health. Medikits lie around; touching one restores some. "
        "Stay alive as long as you can.\n"
        "The actions are: move forward, turn left, turn right."
    ),
}


def teach_defend_the_center(snapshot: Snapshot) -> str:
    """The `rule` of defend_the_center as a function: looks at the nearest monster only."""
    monster = nearest(snapshot, "monster")
    if monster is None:
        return "turn left"
    place = position(monster.cx)
    if place == "centre":
        return "attack"
    return "turn left" if place in {"left", "far left"} else "turn right"


def teach_health_gathering(snapshot: Snapshot) -> str:
    """The `rule` of health_gathering as a function: looks at the nearest item only."""
    item = nearest(snapshot, "item")
    if item is None:
        return "turn right"
    place = position(item.cx)
    if place == "centre":
        return "move forward"
    return "turn left" if place in {"left", "far left"} else "turn right"
