"""The random baseline: a uniform choice from the episode's own generator."""

from __future__ import annotations

import numpy as np

from rollouts.policies.base import PolicyContext, refuse_argument
from rollouts.records import Answer, EpisodeKey, PolicyDescription, Snapshot


class RandomPolicy:
    """Uniform over the options, the same wherever and in whatever order episodes are played."""

    def __init__(self, context: PolicyContext) -> None:
        refuse_argument("random", context)
        self._rng = np.random.default_rng(0)

    def reset(self, key: EpisodeKey, rng: np.random.Generator) -> None:  # noqa: ARG002
        self._rng = rng

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:  # noqa: ARG002
        share = 1.0 / len(options)
        choice = options[self._rng.integers(len(options))]
        return Answer(choice, dict.fromkeys(options, share), confidence=share, latency_ms=0.0)

    def describe(self) -> PolicyDescription:
        return PolicyDescription("random", "rule", note="Uniform over the options; no model is asked.")
