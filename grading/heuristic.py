"""The heuristic grader: no model, a pure function of the episode. The default where no endpoint is configured.

With m the episode's metric and r, o the scenario's stored means for the random policy and the oracle:

    goal          2 (m - r) / (o - r) - 1, kept within [-1, 1]: random play is -1, the oracle is +1
    process       1 - 4 (s + v), kept within [-1, 1]: nothing wasted is +1, a quarter wasted is 0; 0 with no decisions
                  s: share of the asked decisions that were out of schema
                  v: share of the asked decisions that complete a reversal with nothing in view: three in a row
                     such as left, right, left, each with no visible thing
    satisfaction  from feedback (feedback.py), else 0
    label         success from goal 0.5, failure to -0.5, else partial

Without baselines the goal is absent and the episode is ungraded, cause `no_baseline`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from grading.feedback import FeedbackRow, satisfaction
from grading.grade import Grade
from grading.replies import Label
from grading.transcript import TranscriptStep
from rollouts.calls.replies import Cause

WASTE_FACTOR = 4.0
LABEL_EDGE = 0.5
_SIDES = {"left": "right", "right": "left", "LEFT": "RIGHT", "RIGHT": "LEFT", "Left": "Right", "Right": "Left"}
_SIDE = re.compile("|".join(_SIDES))


@dataclass(frozen=True, slots=True)
class Baseline:
    """Mean metric of the random policy and of the oracle, under the very settings the episode was played with."""

    random: float
    oracle: float


def heuristic_grade(
    metric: float, steps: Sequence[TranscriptStep], baseline: Baseline | None, feedback: Sequence[FeedbackRow] = ()
) -> Grade:
    """The grade of one completed episode. `baseline` is None for settings other than the published protocol's."""
    goal = None if baseline is None else goal_between(metric, baseline)
    if goal is None:
        detail = "no random and oracle means are stored for these settings"
        return Grade("heuristic", "ungraded", cause=Cause.NO_BASELINE, detail=detail)
    said = satisfaction(feedback)
    return Grade(
        source="heuristic",
        status="graded",
        goal_achievement=goal,
        process_quality=process_of(steps),
        user_satisfaction=0.0 if said is None else said,
        label=label_of(goal),
        reason="computed from the metric, the decisions and the feedback; no model was asked",
    )


def goal_between(metric: float, baseline: Baseline) -> float | None:
    """Where `metric` lies between the baselines, in [-1, 1]; None where that is not defined."""
    width = baseline.oracle - baseline.random
    if width == 0 or not (math.isfinite(width) and math.isfinite(metric)):
        return None
    return _within(2 * (metric - baseline.random) / width - 1)


def process_of(steps: Sequence[TranscriptStep]) -> float:
    """The process axis of an episode's decisions, in [-1, 1]."""
    asked = sum(step.asked for step in steps)
    if asked == 0:
        return 0.0
    failed = sum(step.asked and step.schema_error is not None for step in steps)
    return _within(1 - WASTE_FACTOR * (failed + reversals(steps)) / asked)


def reversals(steps: Sequence[TranscriptStep]) -> int:
    """How many decisions undo the one before, which undid its own, all three with nothing in view."""
    return sum(_reverses(*steps[n - 2 : n + 1]) for n in range(2, len(steps)))


def _reverses(first: TranscriptStep, second: TranscriptStep, third: TranscriptStep) -> bool:
    blind = all(s.asked and s.schema_error is None and s.n_visible == 0 for s in (first, second, third))
    opposite = _SIDE.sub(lambda side: _SIDES[side.group()], first.action or "")
    return blind and first.action != second.action == opposite and third.action == first.action


def label_of(goal: float) -> Label:
    """What a goal axis comes to in a word."""
    if goal >= LABEL_EDGE:
        return "success"
    return "failure" if goal <= -LABEL_EDGE else "partial"


def _within(value: float) -> float:
    return max(-1.0, min(1.0, value))
