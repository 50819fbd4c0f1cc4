"""deathmatch: one player in an arena full of monsters, weapons and supplies. Seven of the cfg's twenty buttons."""

from __future__ import annotations

from rollouts.observation import COUNTERS, StateText
from rollouts.rubrics import both
from rollouts.scenarios.measures import KILLS
from rollouts.scenarios.rules import Rule, Rules, towards
from rollouts.scenarios.scenario import Baselines, EngineSetup, Scenario
from rollouts.scenarios.stock.common import (
    ATTACK,
    BACKWARD,
    FORWARD,
    MOVE_LEFT,
    MOVE_RIGHT,
    SEEDS,
    TURN_LEFT,
    TURN_RIGHT,
)

DEATHMATCH = Scenario(
    name="deathmatch",
    seeds=SEEDS,
    metric=KILLS,
    actions=(ATTACK, FORWARD, BACKWARD, TURN_LEFT, TURN_RIGHT, MOVE_LEFT, MOVE_RIGHT),
    describe=StateText(
        things=(("monster", 3), ("item", 3)),
        depth=True,
        variables=(*COUNTERS, "ARMOR"),
        words={"ARMOR": "Armor is"},
    ),
    # Going for every item in view instead of walking on kills fewer: the arena's middle is full of them.
    teacher=Rules(
        (
            *towards("monster", "attack"),
            Rule("turn right", ahead=("wall directly ahead", "wall near")),
            Rule("move forward"),
        )
    ),
    instructions=both(
        "You are in an arena. Monsters appear again and again; weapons, ammunition and medikits lie about. "
        "Kill as many monsters as you can.",
        "Look at the nearest monster, and where none is visible at the room ahead,",
        {
            "attack": "the monster is in the centre, on the crosshair.",
            "move forward": "no monster is visible and there is room ahead.",
            "move backward": "never.",
            "turn left": "the monster is left or far left.",
            "turn right": "the monster is right or far right; or none is visible and a wall is near or directly ahead.",
            "move left": "never.",
            "move right": "never.",
        },
    ),
    engine=EngineSetup("deathmatch.cfg", needs_depth=True, variables=("ARMOR",)),
    baselines=Baselines(random=1.34, oracle=5.22),
    step_cap=525,
)
