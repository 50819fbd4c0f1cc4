"""(a) The bare engine loop: the oracle's own actions, played back by one plain process a core. Nothing is looked at."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from benchmarks.spans import Span
from rollouts.doom.engine import Engine
from rollouts.doom.environment import make_environment
from rollouts.episode import EpisodeRules, run_episode
from rollouts.errors import EngineLost
from rollouts.policies.registry import make_policy
from rollouts.records import Decision, EpisodeKey
from rollouts.scenarios.registry import find_scenario
from rollouts.scenarios.scenario import Scenario

READY_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Replay:
    """One episode as the oracle plays it: the index of each action among the scenario's options."""

    seed: int
    actions: tuple[int, ...]


class _Actions:
    def __init__(self, options: tuple[str, ...]) -> None:
        self._options = options
        self.made: list[int] = []

    def record(self, decision: Decision) -> None:
        self.made.append(self._options.index(decision.effective_action))


def record(scenario: Scenario, seeds: Sequence[int]) -> list[Replay]:
    """Let the oracle play the first episode of each seed and keep its actions."""
    rules = EpisodeRules(scenario, scenario.tics, scenario.step_cap, run_seed=0)
    environment = make_environment(scenario, None)
    policy = make_policy("oracle", scenario)
    replays = []
    try:
        for seed in seeds:
            actions = _Actions(scenario.options)
            run_episode(EpisodeKey(scenario.name, "rule", "oracle", seed, 0), rules, environment, policy, actions)
            replays.append(Replay(seed, tuple(actions.made)))
    finally:
        environment.close()
    return replays


def play(scenario: Scenario, engine: Engine, replays: Sequence[Replay]) -> int:
    """Play the episodes back; returns the decisions made. This loop is all that is measured."""
    game, tics = engine.game, scenario.tics
    vectors = [[float(i == j) for j in range(len(scenario.options))] for i in range(len(scenario.options))]
    for replay in replays:
        engine.seek(replay.seed, 0)
        game.get_state()
        for action in replay.actions:
            game.make_action(vectors[action], tics)
            game.get_state()
    return sum(len(replay.actions) for replay in replays)


def _work(name: str, replays: Sequence[Replay], started_s: float, start: Barrier, result: Connection) -> None:
    scenario = find_scenario(name)
    assert scenario.engine is not None
    buttons = [button for action in scenario.actions for button in action.buttons]
    engine = Engine(scenario.engine, buttons, "indexed")
    try:
        ready_s = time.perf_counter() - started_s
        start.wait(READY_TIMEOUT_S)
        begun_s = time.perf_counter()
        decisions = play(scenario, engine, replays)
        result.send(Span(decisions, time.perf_counter() - begun_s, ready_s))
    finally:
        engine.close()


def measure(scenario: Scenario, replays: Sequence[Sequence[Replay]]) -> tuple[Span, ...]:
    """One process for each list of episodes, all at the same time."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(len(replays))
    pipes = [context.Pipe(duplex=False) for _ in replays]
    workers = [
        context.Process(target=_work, args=(scenario.name, share, time.perf_counter(), start, sender), daemon=True)
        for share, (_, sender) in zip(replays, pipes, strict=True)
    ]
    for worker, (_, sender) in zip(workers, pipes, strict=True):
        worker.start()
        sender.close()
    try:
        return tuple(receiver.recv() for receiver, _ in pipes)
    except EOFError:
        raise EngineLost("a process of the bare loop died: its own words are above") from None
    finally:
        for worker in workers:
            worker.join(READY_TIMEOUT_S)
