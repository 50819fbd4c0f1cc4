"""Scenarios and policies that go wrong on purpose, on the real game, for runs from the console."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from rollouts.doom.environment import make_environment
from rollouts.pools.stall import kill_engines
from rollouts.records import Answer, EpisodeKey, PolicyDescription, Snapshot
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.scenario import Capture, Environment, Scenario


class _First:
    """Always the first option."""

    name = "first"

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        return Answer(options[0])

    def describe(self) -> PolicyDescription:
        return PolicyDescription(self.name, "rule")


class BadWeights(_First):
    """Can be made where the command runs, which does it first, and in no worker."""

    def __init__(self) -> None:
        seen = Path("weights.seen")
        if seen.exists():
            raise ValueError("bad weights path X")
        seen.touch()


class Hangs(_First):
    name = "hangs"

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        time.sleep(3600)
        return Answer(options[0])


class DiesAtSeed3(_First):
    """Takes its process along, each time, in its third decision of seed 3."""

    name = "dies"

    def reset(self, key: EpisodeKey, rng: np.random.Generator) -> None:
        self._seed, self._decisions = key.seed, 0

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        self._decisions += 1
        if (self._seed, self._decisions) == (3, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        return Answer(options[0])


class KillsEngines(_First):
    """In its fourth decision of seed 1, the first `kills` times: SIGKILL to the engine, not to Python."""

    name = "kills"

    def __init__(self, kills: int = 2) -> None:
        self._kills = kills

    def reset(self, key: EpisodeKey, rng: np.random.Generator) -> None:
        self._seed, self._decisions = key.seed, 0

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        self._decisions += 1
        if self._kills and (self._seed, self._decisions) == (1, 4):
            self._kills -= 1
            assert kill_engines() == 1
        return Answer(options[0])


class Calm(_First):
    name = "kills"


class _NoReset:
    """Doom, but for its resets."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __getattr__(self, name: str) -> object:
        return getattr(self._environment, name)

    def reset(self, seed: int, index: int) -> Snapshot:
        raise OSError("no such level as E9M9")


def _no_reset(scenario: Scenario, tics: int, capture: Capture) -> Environment:
    doom = make_environment(SCENARIOS["defend_the_center"], capture, tics)
    return _NoReset(doom)  # type: ignore[return-value]


NO_RESET = replace(SCENARIOS["defend_the_center"], name="no_reset", engine=None, environment=_no_reset)
