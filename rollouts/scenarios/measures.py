"""The metrics by name. To add one: a line in METRICS."""

from __future__ import annotations

from rollouts.records import Snapshot
from rollouts.scenarios.scenario import TICS_PER_S, Metric, Outcome


def _kills(last: Snapshot, decisions: int, tics: int) -> float:  # noqa: ARG001
    return float(last.kills or 0)


def _survival_s(last: Snapshot, decisions: int, tics: int) -> float:  # noqa: ARG001
    return decisions * tics / TICS_PER_S


def _health(last: Snapshot, decisions: int, tics: int) -> float:  # noqa: ARG001
    return float(last.health or 0)


def _reward(outcome: Outcome) -> float:
    return outcome.reward


def _goal(outcome: Outcome) -> float:
    return float(outcome.end_reason == "goal")


def _success(outcome: Outcome) -> float:
    return float(outcome.reward > 0)


KILLS = Metric("kills", "monsters", _kills, least=0)
SURVIVAL = Metric("survival_s", "s", _survival_s, per_waited_tic=1 / TICS_PER_S, least=0)
HEALTH = Metric("health", "points", _health)
REWARD = Metric("reward", "points", of_outcome=_reward)
GOAL = Metric("goal", "share", of_outcome=_goal, least=0, most=1)
SUCCESS = Metric("success", "share", of_outcome=_success, least=0, most=1)

METRICS: dict[str, Metric] = {metric.name: metric for metric in (KILLS, SURVIVAL, HEALTH, REWARD, GOAL, SUCCESS)}
"""`kills` and `health` stand in the last snapshot; `reward` is the engine's total; `goal` is 1 where the episode ended
before its time with the player alive, else 0; `success` is 1 where the total reward is above 0, else 0."""
