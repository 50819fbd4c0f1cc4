"""The scenarios by name. To add one: a file in rollouts/scenarios/stock/, and a line in SCENARIOS."""

from __future__ import annotations

from rollouts.errors import UsageError
from rollouts.importing import import_object
from rollouts.scenarios.scenario import Scenario
from rollouts.scenarios.stock import (
    basic,
    deadly_corridor,
    deathmatch,
    defend,
    health,
    my_way_home,
    predict_position,
    take_cover,
)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        defend.THE_CENTER,
        health.GATHERING,
        basic.BASIC,
        basic.SIMPLER,
        basic.ROCKET,
        deadly_corridor.DEADLY_CORRIDOR,
        defend.THE_LINE,
        health.GATHERING_SUPREME,
        my_way_home.MY_WAY_HOME,
        predict_position.PREDICT_POSITION,
        take_cover.TAKE_COVER,
        deathmatch.DEATHMATCH,
    )
}
PUBLISHED_SCENARIOS: tuple[str, ...] = (defend.THE_CENTER.name, health.GATHERING.name)
"""Those with a published protocol and published results: what is played where nothing else is asked for."""


def find_scenario(name: str) -> Scenario:
    """The scenario of that name, or a user's own as `module:ATTRIBUTE` (looked for in the current folder too).

    Errors: `UsageError` naming the value and the choices.
    """
    if name in SCENARIOS:
        return SCENARIOS[name]
    choices = f"choose from {', '.join(SCENARIOS)}, or give module:ATTRIBUTE or a scenario file, FILE.toml"
    found = import_object(name, "scenario", choices)
    if not isinstance(found, Scenario):
        raise UsageError(f"scenario {name!r} is a {type(found).__name__}, not a rollouts.scenarios.scenario.Scenario")
    return found
