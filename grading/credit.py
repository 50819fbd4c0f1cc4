"""Credit: an episode's R spread over its decisions, and what may stand beside it. Pure functions, no model, no storage.

    V[T-1] = R;   V[t] = alpha[t] R + (1 - alpha[t]) gamma V[t+1]

alpha = 1 is a key step, 0 is pure discounting.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grading.replies import MAX_SCORE
from grading.transcript import TranscriptStep, spans
from rollouts.errors import UsageError

GAMMA = 0.9
HALF_LIFE_DAYS = 30.0
_SAME = 1e-12
RuleName = Literal["events", "summary", "constant"]


@dataclass(frozen=True, slots=True)
class AlphaRule:
    """How alpha is chosen. `constant` is set for the rule of that name only, in [0, 1]."""

    name: RuleName
    constant: float | None = None

    def __str__(self) -> str:
        return self.name if self.constant is None else f"{self.name}:{self.constant:g}"


EVENTS = AlphaRule("events")
SUMMARY = AlphaRule("summary")


def parse_rule(text: str) -> AlphaRule:
    """`events`, `summary` or `constant:x`; x is clamped to [0, 1]. Raises `UsageError`."""
    name, colon, number = text.partition(":")
    if text == "events":
        return EVENTS
    if text == "summary":
        return SUMMARY
    try:
        value = float(number) if name == "constant" and colon else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"credit rule {text!r} is not known, choose one of: events, summary, constant:x (x a number)")
    return AlphaRule("constant", _clamp(value, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class CreditRow:
    """Credit of one decision: alpha in [0, 1], value in [-1, 1]."""

    tick: int
    alpha: float
    value: float


@dataclass(frozen=True, slots=True)
class CreditSettings:
    """Rule and gamma (clamped to [0, 1] where it is used)."""

    rule: AlphaRule = EVENTS
    gamma: float = GAMMA


def credit_rows(
    reward: float | None,
    steps: Sequence[TranscriptStep],
    settings: CreditSettings,
    scores: Mapping[int, float] | None = None,
) -> tuple[CreditRow, ...] | None:
    """The rows of one episode; None where there are none to give: ungraded (`reward` is None), or under the rule
    `summary` a span has no score. `scores` (0-10, by a span's first tick) is needed by that rule alone."""
    if reward is None:
        return None
    alphas = alphas_of(settings.rule, steps, scores or {})
    if alphas is None:
        return None
    rows = zip(steps, alphas, spread(reward, alphas, settings.gamma), strict=True)
    return tuple(CreditRow(step.tick, alpha, value) for step, alpha, value in rows)


def alphas_of(
    rule: AlphaRule, steps: Sequence[TranscriptStep], scores: Mapping[int, float]
) -> tuple[float, ...] | None:
    """alpha for each decision, in order; None where the rule has none for a span."""
    if rule.constant is not None:
        return (rule.constant,) * len(steps)
    if rule.name == "events":
        return tuple(1.0 if step.events else 0.0 for step in steps)
    found: list[float] = []
    for span in spans(steps):
        if span.first.tick not in scores:
            return None
        found += [1 - scores[span.first.tick] / MAX_SCORE] * len(span.steps)
    return tuple(found)


def spread(reward: float, alphas: Sequence[float], gamma: float = GAMMA) -> tuple[float, ...]:
    """V[t] for each decision. gamma and alpha are clamped to [0, 1], R to [-1, 1].

    Raises `ValueError` where one of them is not finite.
    """
    for name, number in (("R", reward), ("gamma", gamma), *(("alpha", alpha) for alpha in alphas)):
        if not math.isfinite(number):
            raise ValueError(f"{name} is {number}, a finite number is required")
    total, discount = _clamp(reward, -1.0, 1.0), _clamp(gamma, 0.0, 1.0)
    values: list[float] = []
    for alpha in reversed(alphas):
        a = _clamp(alpha, 0.0, 1.0)
        values.append(a * total + (1 - a) * discount * values[-1] if values else total)
    return tuple(reversed(values))


def priority(value: float, age_days: float) -> float:
    """max(V, 0) halved every 30 days, computed on read; an age below 0 (a clock ahead) counts as 0."""
    return max(value, 0.0) * math.pow(0.5, max(age_days, 0.0) / HALF_LIFE_DAYS)


def returns(rewards: Sequence[float], gamma: float = GAMMA) -> tuple[float, ...]:
    """Discounted engine reward from each decision on: G[t] = r[t] + gamma G[t+1]."""
    total, found = 0.0, []
    for reward in reversed(rewards):
        total = reward + _clamp(gamma, 0.0, 1.0) * total
        found.append(total)
    return tuple(reversed(found))


def group_advantages(graded: Sequence[tuple[str, int, float | None]]) -> tuple[float | None, ...]:
    """R minus the mean R of the same (scenario, seed), over their population sd where that is not 0.

    One (scenario, seed, R) an episode, over all policies or repeats of a run and one source of grades; an ungraded
    one (None) stays None and counts for nothing.
    """
    groups: dict[tuple[str, int], list[float]] = defaultdict(list)
    for scenario, seed, reward in graded:
        if reward is not None:
            groups[scenario, seed].append(reward)
    return tuple(None if r is None else _advantage(r, groups[scenario, seed]) for scenario, seed, r in graded)


def _advantage(reward: float, group: Sequence[float]) -> float:
    if max(group) - min(group) <= _SAME:
        return 0.0
    mean = math.fsum(group) / len(group)
    sd = math.sqrt(math.fsum((r - mean) ** 2 for r in group) / len(group))
    return (reward - mean) / sd


def _clamp(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
