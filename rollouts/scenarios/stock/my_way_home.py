"""my_way_home: find the vest in a maze of rooms, from a random place."""

from __future__ import annotations

from rollouts.observation import StateText
from rollouts.rubrics import both
from rollouts.scenarios.measures import GOAL
from rollouts.scenarios.rules import Rule, Rules, towards
from rollouts.scenarios.scenario import Baselines, EngineSetup, Scenario
from rollouts.scenarios.stock.common import FORWARD, MOVE_LEFT, MOVE_RIGHT, SEEDS, TURN_LEFT, TURN_RIGHT

MY_WAY_HOME = Scenario(
    name="my_way_home",
    seeds=SEEDS,
    metric=GOAL,
    actions=(FORWARD, TURN_LEFT, TURN_RIGHT, MOVE_LEFT, MOVE_RIGHT),
    describe=StateText(things=(("item", 1),), depth=True, variables=(), names={"GreenArmor": "vest"}),
    teacher=Rules(
        (
            *towards("item", "move forward"),
            Rule("turn right", ahead=("wall directly ahead", "wall near")),
            Rule("move forward"),
        )
    ),
    instructions=both(
        "You are somewhere in a maze of rooms and corridors. A vest lies in one of the rooms. Find it and touch it.",
        "Look at the nearest item, and where none is visible at the room ahead,",
        {
            "move forward": "the item is in the centre, on the crosshair; or none is visible and there is room ahead.",
            "turn left": "the item is left or far left.",
            "turn right": "the item is right or far right; or none is visible and a wall is near or directly ahead.",
            "move left": "never.",
            "move right": "never.",
        },
    ),
    engine=EngineSetup("my_way_home.cfg", needs_depth=True, game_variables=("HEALTH",)),
    baselines=Baselines(random=0.09375, oracle=0.625),
    step_cap=525,
)
