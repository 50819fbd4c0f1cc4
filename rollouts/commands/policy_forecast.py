"""What the decisions of policies that are models will take, before anything is sent: upper limits."""

from __future__ import annotations

from collections.abc import Mapping

from grading.forecast import Asked, Forecast, forecast
from rollouts.commands.preparing import Prepared
from rollouts.plan import GroupName
from rollouts.policies.base import AsksModel
from rollouts.policies.registry import make_policy, nested

LONGEST_STATE = "x" * 600
"""No state text of the scenarios that ship is as long."""


def policy_forecasts(prepared: Prepared, decisions: Mapping[GroupName, int]) -> list[Forecast]:
    """One for each policy that is a model; `decisions` are the most that each group may still take.

    Each decision is taken to be asked with a full history. Besides, each start asks each model one small question.
    """
    found, order = [], prepared.order.calls
    for spec, who in prepared.facts.descriptions.items():
        asked = _asked(prepared, spec, who.name, decisions)
        if order is not None and asked:
            found.append(forecast("policy", who.model or who.name, asked, order.prices))
    return found


def _asked(prepared: Prepared, spec: str, name: str, decisions: Mapping[GroupName, int]) -> list[Asked]:
    found: list[Asked] = []
    for group in (group for group in prepared.groups if group.policy == name):
        scenario = prepared.config.scenario(group.scenario)
        policy = make_policy(nested(spec)[-1], scenario, settings=prepared.config.model_settings)
        if isinstance(policy, AsksModel):
            told = scenario.instructions[group.rubric]
            request = policy.example(told, LONGEST_STATE, prepared.config.history)
            found.append(Asked(request, times=decisions[group.name]))
    return found
