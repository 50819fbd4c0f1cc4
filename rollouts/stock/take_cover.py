"""take_cover: imps at the far wall throw fireballs; step aside, to the left or to the right."""

from __future__ import annotations

from rollouts.measures import SURVIVAL
from rollouts.observation import Clearance, StateText
from rollouts.rubrics import both
from rollouts.rules import CENTRE, LEFT, RIGHT, Rule, Rules
from rollouts.scenario import Baselines, EngineSetup, Scenario
from rollouts.stock.common import MOVE_LEFT, MOVE_RIGHT, NOT_FAR, SEEDS

_WALL: tuple[Clearance, ...] = ("wall directly ahead",)

TAKE_COVER = Scenario(
    name="take_cover",
    seeds=SEEDS,
    metric=SURVIVAL,
    actions=(MOVE_LEFT, MOVE_RIGHT),
    describe=StateText(
        things=(("projectile", 3), ("monster", 3)),
        depth=True,
        variables=("health",),
        names={"DoomImpBall": "fireball", "DoomImp": "imp"},
    ),
    teacher=Rules(
        (
            Rule("move left", "projectile", CENTRE, NOT_FAR, left=("open",)),
            Rule("move right", "projectile", CENTRE, NOT_FAR),
            Rule("move left", "projectile", LEFT, NOT_FAR, right=_WALL),
            Rule("move right", "projectile", LEFT, NOT_FAR),
            Rule("move right", "projectile", RIGHT, NOT_FAR, left=_WALL),
            Rule("move left", "projectile", RIGHT, NOT_FAR),
            Rule("move left", "monster", LEFT),
            Rule("move right"),
        )
    ),
    instructions=both(
        "You stand at one end of a room and can only step sideways. Imps at the other end throw fireballs at you, "
        "more of them as time goes by. Stay alive as long as you can.",
        "Look at the nearest projectile if its range is medium or nearer, else at the nearest monster,",
        {
            "move left": (
                "the projectile is right or far right, unless there is a wall directly ahead to the left; or it is "
                "left or far left, but there is a wall directly ahead to the right; or it is in the centre and it is "
                "open to the left. Without such a projectile: the monster is left or far left."
            ),
            "move right": "in all other cases.",
        },
    ),
    engine=EngineSetup("take_cover.cfg", needs_depth=True, game_variables=("HEALTH",), projectiles=("DoomImpBall",)),
    baselines=Baselines(random=9.67, oracle=13.76),
)
