"""deadly_corridor: a vest at the end of a corridor, monsters on both sides."""

from __future__ import annotations

from rollouts.observation import StateText
from rollouts.rubrics import both
from rollouts.scenarios.measures import REWARD
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

DEADLY_CORRIDOR = Scenario(
    name="deadly_corridor",
    seeds=SEEDS,
    metric=REWARD,
    actions=(ATTACK, FORWARD, BACKWARD, TURN_LEFT, TURN_RIGHT, MOVE_LEFT, MOVE_RIGHT),
    describe=StateText(things=(("monster", 3), ("item", 3)), names={"GreenArmor": "vest"}),
    # A memoryless player that stops to shoot loses sight of the vest and dies sooner.
    teacher=Rules((*towards("GreenArmor", "move forward"), Rule("turn left"))),
    instructions=both(
        "You stand at one end of a corridor; a vest lies at the other end. Monsters on both sides shoot at you. "
        "Get as near to the vest as you can before you die; reaching it wins.",
        "Look only at the vest (the nearest one, should there be more)",
        {
            "attack": "never; the monsters are too many.",
            "move forward": "the vest is in the centre, on the crosshair.",
            "move backward": "never.",
            "turn left": "the vest is left or far left, or no vest is visible.",
            "turn right": "the vest is right or far right.",
            "move left": "never.",
            "move right": "never.",
        },
    ),
    engine=EngineSetup("deadly_corridor.cfg"),
    baselines=Baselines(random=-76.42, oracle=266.30),
    step_cap=525,
)
