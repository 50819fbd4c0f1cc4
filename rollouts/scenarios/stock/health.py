"""health_gathering (published) and health_gathering_supreme: an acid floor takes health, medikits give some back."""

from __future__ import annotations

from rollouts.observation import StateText
from rollouts.rubrics import both
from rollouts.scenarios.measures import SURVIVAL
from rollouts.scenarios.rules import Rule, Rules, towards
from rollouts.scenarios.scenario import Baselines, EngineSetup, PassiveLoss, Scenario
from rollouts.scenarios.stock.common import FORWARD, SEEDS, TURN_LEFT, TURN_RIGHT

_ACID = PassiveLoss(8, 32)
_STEP_CAP = 525
"""The cfg's 2,100 tics, 4 a decision."""

GATHERING = Scenario(
    name="health_gathering",
    seeds=tuple(range(41006394, 41006402)),
    metric=SURVIVAL,
    actions=(FORWARD, TURN_LEFT, TURN_RIGHT),
    describe=StateText(things=(("item", 2),), depth=True, variables=("health",)),
    teacher=Rules((*towards("item", "move forward"), Rule("turn right"))),
    instructions=both(
        "You stand on an acid floor that keeps taking your health. Medikits lie around; touching one restores some. "
        "Stay alive as long as you can.",
        "Look only at the nearest item",
        {
            "move forward": "the nearest item is in the centre, on the crosshair.",
            "turn left": "the nearest item is left or far left.",
            "turn right": "the nearest item is right or far right, or no item is visible.",
        },
    ),
    engine=EngineSetup("health_gathering.cfg", needs_depth=True, passive_loss=_ACID),
    # The oracle's equals the published result; random's is over 25 random streams a seed, standard error 0.26.
    baselines=Baselines(random=14.56, oracle=19.71),
)

GATHERING_SUPREME = Scenario(
    name="health_gathering_supreme",
    seeds=SEEDS,
    metric=SURVIVAL,
    actions=(FORWARD, TURN_LEFT, TURN_RIGHT),
    describe=StateText(
        things=(("item", 3),),
        depth=True,
        variables=("health",),
        names={"CustomMedikit": "medikit", "Poison": "vial of poison"},
    ),
    teacher=Rules((*towards("CustomMedikit", "move forward"), Rule("turn right"))),
    instructions=both(
        "You stand in a maze on an acid floor that keeps taking your health. Touching a medikit restores some, "
        "touching a vial of poison takes more. Stay alive as long as you can.",
        "Look only at the nearest medikit",
        {
            "move forward": "the nearest medikit is in the centre, on the crosshair.",
            "turn left": "the nearest medikit is left or far left.",
            "turn right": "the nearest medikit is right or far right, or no medikit is visible.",
        },
    ),
    engine=EngineSetup(
        "health_gathering_supreme.cfg",
        needs_depth=True,
        game_variables=("HEALTH",),
        extra_items=("CustomMedikit", "Poison"),
        passive_loss=_ACID,
    ),
    baselines=Baselines(random=11.71, oracle=23.68),
    step_cap=_STEP_CAP,
)
