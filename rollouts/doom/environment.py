"""A scenario as an environment: `make_environment`, and Doom on one ViZDoom engine reused for every episode."""

from __future__ import annotations

from dataclasses import replace

from rollouts.doom.engine import ENGINE_ERRORS, Engine
from rollouts.doom.events import read_events
from rollouts.doom.screen import start_engine
from rollouts.doom.view import View, blind_snapshot, end_reason
from rollouts.errors import EngineLost, ScenarioError
from rollouts.records import EndReason, Snapshot, Transition
from rollouts.scenarios.scenario import Capture, Environment, Scenario


def make_environment(
    scenario: Scenario, capture: Capture, tics: int | None = None, variables: tuple[str, ...] = ()
) -> Environment:
    """The scenario's own environment, or Doom. `capture`: `indexed` (RGB where no palette holds), `rgb` or no frames.

    `tics` is the run's frame skip where it is not the scenario's; `variables` are further engine variables to record
    after each step. Errors: `ScenarioError` (files, names, buttons), `EngineLost` (it does not start).
    """
    if scenario.environment is not None:
        return scenario.environment(scenario, tics or scenario.tics, capture)
    if scenario.engine is not None and variables:
        engine = replace(scenario.engine, variables=tuple(dict.fromkeys((*scenario.engine.variables, *variables))))
        scenario = replace(scenario, engine=engine)
    return DoomEnvironment(scenario, capture)


class DoomEnvironment:
    """Doom behind the `Environment` protocol. Starts its engine at once; a lost one is replaced at the next reset."""

    def __init__(self, scenario: Scenario, capture: Capture) -> None:
        if scenario.engine is None:
            raise ScenarioError(f"scenario {scenario.name!r} has no engine set-up")
        self.restarts = 0
        self._setup = scenario.engine
        self._capture = capture
        self._buttons = scenario.buttons
        self._pressed: dict[str | None, list[float]] = {
            action.name: [float(button in action.buttons) for button in self._buttons] for action in scenario.actions
        }
        self._pressed[None] = [0.0] * len(self._buttons)
        self._finished = True
        self._engine: Engine | None = self._start()

    def _start(self) -> Engine:
        engine, palette = start_engine(self._setup, self._buttons, self._capture)
        self._view = View(self._setup, self._capture is not None, palette)
        return engine

    @property
    def finished(self) -> bool:
        """True when no episode is running: it is over, ended at once, or none was begun."""
        return self._finished

    @property
    def engine_pid(self) -> int | None:
        """The engine's process id, None when it is gone."""
        return self._engine.pid() if self._engine else None

    def reset(self, seed: int, index: int) -> Snapshot:
        """See `Environment.reset`. A lost engine is replaced first."""
        if self._engine is None:
            self._engine = self._start()
            self.restarts += 1
        engine, game = self._engine, self._engine.game
        self._finished = True
        try:
            engine.seek(seed, index)
            sight = self._view.look(game)
            self._finished = game.is_episode_finished()
            self._before, self._tic = sight.counters, game.get_episode_time()
            return sight.snapshot or blind_snapshot(game, sight.counters)
        except EngineLost:  # while it was looking for the episode
            self.close()
            raise
        except ENGINE_ERRORS as error:
            raise self._lose(engine, error) from error

    def step(self, action: str | None, tics: int) -> Transition:
        """See `Environment.step`. The counters are the engine's own also when it has nothing more to show."""
        engine = self._engine
        if engine is None or self._finished:
            raise EngineLost("no episode is running: reset first")
        game = engine.game
        try:
            reward = game.make_action(self._pressed[action], tics)
            sight = self._view.look(game)
            self._finished = game.is_episode_finished()
            reason: EndReason | None = end_reason(game) if self._finished else None
            now = sight.snapshot.game_tic if sight.snapshot else game.get_episode_time()
        except ENGINE_ERRORS as error:
            raise self._lose(engine, error) from error
        before, after, passed = self._before, sight.counters, now - self._tic
        self._before, self._tic = after, now
        return Transition(
            reward=reward,
            snapshot=sight.snapshot,
            terminated=reason in {"death", "goal"},
            truncated=reason == "timeout",
            end_reason=reason,
            health_after=after.health,
            ammo_after=after.ammo,
            kills_after=after.kills,
            events=read_events(before, after, reason == "death", passed, self._setup.passive_loss),
            variables=sight.variables,
            tics=passed,
        )

    def close(self) -> None:
        """End the engine, also a hung one. May be called twice."""
        engine, self._engine, self._finished = self._engine, None, True
        if engine is not None:
            engine.close()

    def _lose(self, engine: Engine, error: Exception) -> EngineLost:
        lost = engine.lost(error)
        self.close()
        return lost
