"""predict_position: one slow rocket and a monster that walks about; aim where it will be.

It has no teacher: a rule that sees one moment cannot tell which way the monster walks. Shooting when it stood in the
centre hit in 22 % of 32 episodes, random in 6 %: no clear difference. So there is no `rule` to tell either.
"""

from __future__ import annotations

from rollouts.measures import SUCCESS
from rollouts.observation import StateText
from rollouts.rubrics import bare
from rollouts.scenario import EngineSetup, Scenario
from rollouts.stock.common import ATTACK, SEEDS, TURN_LEFT, TURN_RIGHT

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
)
