"""predict_position: one slow rocket and a monster that walks about; aim where it will be.

It has no teacher: a rule that sees one moment cannot tell which way the monster walks. Turning to it and shooting
when it stood in the centre hit in 7 of 32 episodes, random in 5. So there is no `rule` to tell either.
"""

from __future__ import annotations

from rollouts.observation import StateText
from rollouts.rubrics import bare
from rollouts.scenarios.measures import SUCCESS
from rollouts.scenarios.scenario import Baselines, EngineSetup, Scenario
from rollouts.scenarios.stock.common import ATTACK, SEEDS, TURN_LEFT, TURN_RIGHT

PREDICT_POSITION = Scenario(
    name="predict_position",
    seeds=SEEDS,
    metric=SUCCESS,
    actions=(ATTACK, TURN_LEFT, TURN_RIGHT),
    describe=StateText(things=(("monster", 1),), variables=("ammo",)),
    instructions=bare(
        "You stand in a room with a rocket launcher and one rocket, which takes a while to arrive. A monster walks "
        "about by the opposite wall. Hit it: aim where it will be.",
        ("attack", "turn left", "turn right"),
    ),
    engine=EngineSetup("predict_position.cfg"),
    baselines=Baselines(random=0.15625),
)
