"""basic, simpler_basic and rocket_basic: one monster by the opposite wall; step in front of it and shoot."""

from __future__ import annotations

from rollouts.observation import StateText
from rollouts.rubrics import both
from rollouts.scenarios.measures import REWARD
from rollouts.scenarios.rules import Rule, Rules, towards
from rollouts.scenarios.scenario import Baselines, EngineSetup, Scenario
from rollouts.scenarios.stock.common import ATTACK, MOVE_LEFT, MOVE_RIGHT, SEEDS

_GOAL = (
    "You stand in a room and can only step sideways and shoot. One monster stands by the opposite wall. "
    "Kill it as soon as you can: each moment costs, and so does each miss."
)


def _basic(name: str, story: str, baselines: Baselines) -> Scenario:
    return Scenario(
        name=name,
        seeds=SEEDS,
        metric=REWARD,
        actions=(ATTACK, MOVE_LEFT, MOVE_RIGHT),
        describe=StateText(things=(("monster", 1),), variables=("ammo",)),
        teacher=Rules((*towards("monster", "attack", "move left", "move right"), Rule("move left"))),
        instructions=both(
            story,
            "Look at the nearest monster",
            {
                "attack": "the monster is in the centre, on the crosshair.",
                "move left": "the monster is left or far left, or no monster is visible.",
                "move right": "the monster is right or far right.",
            },
        ),
        engine=EngineSetup(f"{name}.cfg"),
        baselines=baselines,
    )


BASIC = _basic("basic", _GOAL, Baselines(random=-223.78, oracle=75.94))
SIMPLER = _basic("simpler_basic", _GOAL, Baselines(random=-161.88, oracle=78.00))
ROCKET = _basic(
    "rocket_basic",
    f"{_GOAL} Your weapon is a rocket launcher: rockets take a while to arrive.",
    Baselines(random=-187.62, oracle=37.38),
)
