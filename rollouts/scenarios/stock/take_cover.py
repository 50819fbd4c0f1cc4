"""take_cover: imps at the far wall throw fireballs at where the player is; step aside, to the left or to the right."""

from __future__ import annotations

from rollouts.observation import Clearance, StateText
from rollouts.rubrics import both
from rollouts.scenarios.measures import SURVIVAL
from rollouts.scenarios.rules import Rule, Rules
from rollouts.scenarios.scenario import Baselines, EngineSetup, Scenario
from rollouts.scenarios.stock.common import MOVE_LEFT, MOVE_RIGHT, SEEDS

_WALL: tuple[Clearance, ...] = ("wall directly ahead", "wall near")
_TO_THE_LEFT = "VELOCITY_Y"
"""The player looks along the x axis and never turns."""

TAKE_COVER = Scenario(
    name="take_cover",
    seeds=SEEDS,
    metric=SURVIVAL,
    actions=(MOVE_LEFT, MOVE_RIGHT),
    describe=StateText(
        things=(("projectile", 3), ("monster", 3)),
        depth=True,
        variables=("health", _TO_THE_LEFT),
        names={"DoomImpBall": "fireball", "DoomImp": "imp"},
        words={_TO_THE_LEFT: "Your speed to the left is"},
    ),
    # Dodging the nearest fireball was no better than random on seeds that the rule had not been chosen on.
    teacher=Rules(
        (
            Rule("move right", left=_WALL),
            Rule("move left", right=_WALL),
            Rule("move left", variable=_TO_THE_LEFT, at_least=0),
            Rule("move right"),
        )
    ),
    instructions=both(
        "You stand at one end of a room and can only step sideways. Imps at the other end throw fireballs at you, "
        "more of them as time goes by. Stay alive as long as you can.",
        "Never stop: look at the walls to your sides and at your own speed",
        {
            "move left": (
                "a wall is near or directly ahead to the right; or there is room on both sides and your speed to the "
                "left is 0 or more."
            ),
            "move right": (
                "a wall is near or directly ahead to the left; or there is room on both sides and your speed to the "
                "left is negative."
            ),
        },
    ),
    engine=EngineSetup(
        "take_cover.cfg",
        needs_depth=True,
        game_variables=("HEALTH",),
        variables=(_TO_THE_LEFT,),
        projectiles=("DoomImpBall",),
    ),
    baselines=Baselines(random=9.67, oracle=18.00),
)
