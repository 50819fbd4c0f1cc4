"""defend_the_center (published) and defend_the_line: turn, and shoot what comes."""

from __future__ import annotations

from rollouts.observation import StateText
from rollouts.rubrics import both
from rollouts.scenarios.measures import KILLS
from rollouts.scenarios.rules import Rule, Rules, towards
from rollouts.scenarios.scenario import Baselines, EngineSetup, Scenario
from rollouts.scenarios.stock.common import ATTACK, SEEDS, TURN_LEFT, TURN_RIGHT

_LOOKING = "Look only at the nearest monster"
_CRITERIA = {
    "attack": "the nearest monster is in the centre, on the crosshair.",
    "turn left": "the nearest monster is left or far left, or no monster is visible.",
    "turn right": "the nearest monster is right or far right.",
}
_DESCRIBE = StateText(things=(("monster", 3),))
_TEACHER = Rules((*towards("monster", "attack"), Rule("turn left")))

THE_CENTER = Scenario(
    name="defend_the_center",
    seeds=tuple(range(42106076, 42106084)),
    metric=KILLS,
    actions=(ATTACK, TURN_LEFT, TURN_RIGHT),
    describe=_DESCRIBE,
    teacher=_TEACHER,
    instructions=both(
        "You stand in the middle of a round arena and can only turn and shoot. Monsters come from all sides. "
        "Shoot as many as you can before you die; ammunition is limited.",
        _LOOKING,
        _CRITERIA,
    ),
    engine=EngineSetup("defend_the_center.cfg"),
    # The oracle's equals the published result; random's is over 50 random streams a seed, standard error 0.05.
    baselines=Baselines(random=1.39, oracle=11.125),
)

THE_LINE = Scenario(
    name="defend_the_line",
    seeds=SEEDS,
    metric=KILLS,
    actions=(ATTACK, TURN_LEFT, TURN_RIGHT),
    describe=_DESCRIBE,
    teacher=_TEACHER,
    instructions=both(
        "You stand at the end of a room and can only turn and shoot. Monsters come from the other side, stronger each "
        "time; some throw fireballs. Shoot as many as you can before you die.",
        _LOOKING,
        _CRITERIA,
    ),
    engine=EngineSetup("defend_the_line.cfg"),
    baselines=Baselines(random=9.06, oracle=12.41),
)
