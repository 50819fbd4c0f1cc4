"""What a scenario is. Those there are stand in registry.py.

A scenario is data plus a few small functions. The loop that plays it knows nothing about Doom:

    environment = make_environment(scenario, capture)          # rollouts/doom/environment.py
    snapshot = environment.reset(seed, index)
    while not environment.finished:
        text = scenario.describe(snapshot, previous)
        transition = environment.step(action, tics)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rollouts.errors import ScenarioError
from rollouts.records import EndReason, Snapshot, Transition

TICS_PER_S = 35
Capture = Literal["indexed", "rgb"] | None


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
    """An option a policy can choose. `buttons` are engine button names, pressed together; none is a no-op.

    Errors: `ScenarioError` for a name that no policy could answer with.
    """

    name: str
    buttons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or self.name != self.name.strip():
            raise ScenarioError(f"action {self.name!r}: the name must be a text on one line, without blanks around it")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode came out: the engine's total reward, and why it ended (None where nothing was decided)."""

    reward: float
    end_reason: EndReason | None


@dataclass(frozen=True, slots=True)
class Metric:
    """What an episode is measured by; `name` is the results key. `measure(last snapshot, decisions, tics)`.

    `decisions` are those whose action was sent. `of_outcome` measures in its place what no snapshot shows, such as a
    goal that was reached. `per_waited_tic` is what each tic adds that passes, in real time, while the policy thinks:
    for a metric that measures time. `least` and `most` bound what an episode can come out at. Errors: `ScenarioError`
    unless there is exactly one function.
    """

    name: str
    unit: str
    measure: Callable[[Snapshot, int, int], float] | None = None
    of_outcome: Callable[[Outcome], float] | None = None
    per_waited_tic: float = 0.0
    least: float = -math.inf
    most: float = math.inf

    def __post_init__(self) -> None:
        if (self.measure is None) == (self.of_outcome is None):
            raise ScenarioError(f"metric {self.name!r}: give either measure or of_outcome")

    def value(self, last: Snapshot, decisions: int, tics: int, outcome: Outcome) -> float:
        """The metric of one episode."""
        if self.measure is not None:
            return float(self.measure(last, decisions, tics))
        assert self.of_outcome is not None
        return float(self.of_outcome(outcome))


@dataclass(frozen=True, slots=True)
class Baselines:
    """Metric means on the scenario's seeds; they stand for any seeds, under its own tics and step cap only.

    `random` chooses uniformly; `oracle` is the teacher, deterministic, None where there is none. Measured on vizdoom
    1.3.1, by `python -m benchmarks.baselines` unless the scenario's file says otherwise.
    """

    random: float
    oracle: float | None = None


@dataclass(frozen=True, slots=True)
class PassiveLoss:
    """Health that the world itself takes (an acid floor): `health` at most once in `every_tics`. It is no hit."""

    health: int
    every_tics: int


@dataclass(frozen=True, slots=True)
class GameFile:
    """A cfg or wad as it was read, so that it can be played where the file is not. `name` is without folders."""

    name: str
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """In hex."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """How ViZDoom is set up. `cfg` is the name of a stock cfg or a path; `wad` and `game` (the base game, an IWAD)
    replace the cfg's.

    `timeout_tics` replaces the cfg's episode timeout. `game_variables` are those of HEALTH, SELECTED_WEAPON_AMMO and
    KILLCOUNT that the scenario has; one it has not is None in every snapshot. `variables` are further engine
    variables, in every snapshot and recorded after each step. `extra_monsters`, `extra_items` and `projectiles` are
    class names beyond Doom's own monsters and pickups; without `projectiles` nothing that flies is seen.
    """

    cfg: str | GameFile
    needs_depth: bool = False
    wad: str | GameFile | None = None
    game: str | GameFile | None = None
    timeout_tics: int | None = None
    game_variables: tuple[str, ...] = ("HEALTH", "SELECTED_WEAPON_AMMO", "KILLCOUNT")
    variables: tuple[str, ...] = ()
    extra_monsters: tuple[str, ...] = ()
    extra_items: tuple[str, ...] = ()
    projectiles: tuple[str, ...] = ()
    passive_loss: PassiveLoss | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The scenario file that a scenario was read from: its name without folders, and its sha256 in hex."""

    name: str
    sha256: str


EnvironmentFactory = Callable[["Scenario", int, Capture], Environment]
Teacher = Callable[[Snapshot], str]


@dataclass(frozen=True)
class Scenario:
    """One task. `seeds` are those of its protocol, in order; `actions` keep their order everywhere.

    `instructions` maps rubric modes to what a policy is told; without a teacher there is no `rule`. A scenario plays
    on ViZDoom as `engine` says, or on `environment(scenario, tics, capture)` where that is given. `source` is the file
    that it was read from, if any. Errors: `ScenarioError` on a contradiction.
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
    source: Source | None = None

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
