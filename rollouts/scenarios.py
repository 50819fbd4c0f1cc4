"""What a scenario is, and the scenarios there are. Adding one is an entry in `SCENARIOS`, or `module:ATTRIBUTE`.

A scenario is data plus a few small functions. The loop that plays it knows nothing about Doom:

    environment = make_environment(scenario, capture)          # rollouts/doom/environment.py
    snapshot = environment.reset(seed, index)
    while not environment.finished:
        text = scenario.describe(snapshot, previous)
        transition = environment.step(action, tics)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rollouts import rubrics
from rollouts.errors import ScenarioError, UsageError
from rollouts.importing import import_object
from rollouts.observation import describe_defend_the_center, describe_health_gathering
from rollouts.records import Snapshot, Transition

TICS_PER_S = 35
Capture = Literal["indexed", "rgb"] | None
Teacher = Callable[[Snapshot], str]


class Environment(Protocol):
    """One world that plays any episode of its scenario, in any order.

    Engine trouble raises `EngineLost` (the try is void); the next `reset` starts afresh.
    """

    restarts: int
    """Engines started beyond the first."""

    @property
    def finished(self) -> bool:
        """True when the episode is over; also right after a reset that ended at once."""
        ...

    def reset(self, seed: int, index: int) -> Snapshot:
        """Episode `index` of `seed`: the (index + 1)-th reset of an environment made for that seed alone."""
        ...

    def step(self, action: str | None, tics: int) -> Transition:
        """Hold `action` (an option's name) for `tics` engine tics; None, in real time only, presses nothing."""
        ...

    def close(self) -> None:
        """Give everything back. Never hangs, never raises; may be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Action:
    """An option a policy can choose. `buttons` are engine button names, pressed together; none is a no-op."""

    name: str
    buttons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """What an episode is measured by; `name` is the results key. `measure(last snapshot, decisions, tics)`.

    `decisions` are those whose action was sent. `per_waited_tic` is what each tic adds that passes, in real time, while
    the policy thinks: for a metric that measures time.
    """

    name: str
    unit: str
    measure: Callable[[Snapshot, int, int], float]
    per_waited_tic: float = 0.0


@dataclass(frozen=True, slots=True)
class Baselines:
    """Metric means on the published seeds; they stand for any seeds, under the published tics and step cap only.

    Source: measured on vizdoom 1.3.1. `oracle` (the teacher) is deterministic and equals the published results;
    `random` (uniform) is over 50 (kills, standard error 0.05) and 25 (survival_s, 0.26) random streams a seed.
    """

    random: float
    oracle: float


@dataclass(frozen=True, slots=True)
class PassiveLoss:
    """Health that the world itself takes (an acid floor): `health` at most once in `every_tics`. It is no hit."""

    health: int
    every_tics: int


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """How ViZDoom is set up. `cfg` is the name of a stock cfg or a path; `wad` replaces the cfg's.

    `timeout_tics` replaces the cfg's episode timeout. `game_variables` are those of HEALTH, SELECTED_WEAPON_AMMO and
    KILLCOUNT that the scenario has; one it has not is None in every snapshot. `variables` are further engine
    variables, recorded after each step. `extra_monsters` are class names beyond Doom's own.
    """

    cfg: str
    needs_depth: bool = False
    wad: str | None = None
    timeout_tics: int | None = None
    game_variables: tuple[str, ...] = ("HEALTH", "SELECTED_WEAPON_AMMO", "KILLCOUNT")
    variables: tuple[str, ...] = ()
    extra_monsters: tuple[str, ...] = ()
    passive_loss: PassiveLoss | None = None


EnvironmentFactory = Callable[["Scenario", int, Capture], Environment]


@dataclass(frozen=True)
class Scenario:
    """One task. `seeds` are those of the published protocol, in order; `actions` keep their order everywhere.

    `instructions` maps rubric modes to what a policy is told. A scenario plays on ViZDoom as `engine` says, or on
    `environment(scenario, tics, capture)` where that is given. Errors: `ScenarioError` on a contradiction.
    """

    name: str
    seeds: tuple[int, ...]
    metric: Metric
    actions: tuple[Action, ...]
    describe: Callable[[Snapshot, str | None], str]
    teacher: Teacher | None = None
    instructions: Mapping[str, str] = field(default_factory=dict)
    engine: EngineSetup | None = None
    environment: EnvironmentFactory | None = None
    baselines: Baselines | None = None
    tics: int = 4
    step_cap: int = 300

    def __post_init__(self) -> None:
        if len(set(self.options)) != len(self.options) or not self.options:
            raise ScenarioError(f"scenario {self.name!r}: actions must be there and have names of their own")
        if (self.engine is None) == (self.environment is None):
            raise ScenarioError(f"scenario {self.name!r}: give either an engine set-up or an environment")
        if self.tics < 1 or self.step_cap < 1:
            raise ScenarioError(f"scenario {self.name!r}: tics ({self.tics}) and step cap ({self.step_cap}) start at 1")

    @property
    def options(self) -> tuple[str, ...]:
        """The action names, in order."""
        return tuple(action.name for action in self.actions)

    @property
    def buttons(self) -> tuple[str, ...]:
        """The engine buttons that the actions press, each once."""
        return tuple(dict.fromkeys(name for action in self.actions for name in action.buttons))


def _kills(last: Snapshot, decisions: int, tics: int) -> float:  # noqa: ARG001
    return float(last.kills or 0)


def _survival_s(last: Snapshot, decisions: int, tics: int) -> float:  # noqa: ARG001
    return decisions * tics / TICS_PER_S


SURVIVAL = Metric("survival_s", "s", _survival_s, per_waited_tic=1 / TICS_PER_S)
_LEFT = Action("turn left", ("TURN_LEFT",))
_RIGHT = Action("turn right", ("TURN_RIGHT",))

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="defend_the_center",
            seeds=tuple(range(42106076, 42106084)),
            metric=Metric("kills", "monsters", _kills),
            actions=(Action("attack", ("ATTACK",)), _LEFT, _RIGHT),
            describe=describe_defend_the_center,
            teacher=rubrics.teach_defend_the_center,
            instructions=rubrics.DEFEND_THE_CENTER,
            engine=EngineSetup("defend_the_center.cfg"),
            baselines=Baselines(random=1.39, oracle=11.125),
        ),
        Scenario(
            name="health_gathering",
            seeds=tuple(range(41006394, 41006402)),
            metric=SURVIVAL,
            actions=(Action("move forward", ("MOVE_FORWARD",)), _LEFT, _RIGHT),
            describe=describe_health_gathering,
            teacher=rubrics.teach_health_gathering,
            instructions=rubrics.HEALTH_GATHERING,
            engine=EngineSetup("health_gathering.cfg", needs_depth=True, passive_loss=PassiveLoss(8, 32)),
            baselines=Baselines(random=14.56, oracle=19.71),
        ),
    )
}


def find_scenario(name: str) -> Scenario:
    """The scenario of that name, or a user's own as `module:ATTRIBUTE` (looked for in the current folder too).

    Errors: `UsageError` naming the value and the choices.
    """
    if name in SCENARIOS:
        return SCENARIOS[name]
    found = import_object(name, "scenario", f"choose from {', '.join(SCENARIOS)}, or give module:ATTRIBUTE")
    if not isinstance(found, Scenario):
        raise UsageError(f"scenario {name!r} is a {type(found).__name__}, not a rollouts.scenarios.Scenario")
    return found
