"""What a policy is told in each rubric mode. A mode never changes the actions that it can choose.

`rule` states the whole decision rule with one criterion an action; `bare` states the goal and the actions only.
"""

from __future__ import annotations

from collections.abc import Mapping

RUBRICS: tuple[str, ...] = ("rule", "bare")


def both(story: str, looking: str, criteria: Mapping[str, str]) -> Mapping[str, str]:
    """Both modes' texts. `story` states the goal, `looking` what to look at; `criteria` maps actions to when they are
    right, in the scenario's order."""
    rule = "\n".join(f"- {action}: {when}" for action, when in criteria.items())
    return {"rule": f"{story}\n{looking} and choose by this rule:\n{rule}", **bare(story, tuple(criteria))}


def bare(story: str, actions: tuple[str, ...]) -> Mapping[str, str]:
    """The text without a rule, all there is where no rule is known."""
    return {"bare": f"{story}\nThe actions are: {', '.join(actions)}."}
