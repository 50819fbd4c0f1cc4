"""What several stock scenarios share: actions and seeds."""

from __future__ import annotations

from rollouts.scenarios.scenario import Action

SEEDS: tuple[int, ...] = tuple(range(32))
"""For scenarios without a published protocol: those that their baselines are measured on."""

ATTACK = Action("attack", ("ATTACK",))
FORWARD = Action("move forward", ("MOVE_FORWARD",))
BACKWARD = Action("move backward", ("MOVE_BACKWARD",))
TURN_LEFT = Action("turn left", ("TURN_LEFT",))
TURN_RIGHT = Action("turn right", ("TURN_RIGHT",))
MOVE_LEFT = Action("move left", ("MOVE_LEFT",))
MOVE_RIGHT = Action("move right", ("MOVE_RIGHT",))
