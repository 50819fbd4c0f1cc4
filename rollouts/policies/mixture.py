"""The teacher with probability BETA, else another policy; who acts is drawn anew for each decision.

This is the mixture that DAgger collects data with: Ross, Gordon and Bagnell, "A Reduction of Imitation Learning and
Structured Prediction to No-Regret Online Learning" (2011). A row says who acted; where the teacher did, the other
policy was not asked, and nothing of the row is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rollouts.errors import UsageError
from rollouts.policies.base import ChecksScenario, HasReset, PolicyContext, SeesTick, TriesOut, close_policy, teacher_of
from rollouts.records import Answer, EpisodeKey, PolicyDescription, Snapshot
from rollouts.scenarios.scenario import Scenario
from rollouts.streams import substream

NAME = "mixture"
FORM = "give mixture:BETA:POLICY, such as mixture:0.5:random"
_NOTE = "The scenario's written rule acts with probability {beta}, else {inner}, which is then the only one asked."


@dataclass(frozen=True)
class Parts:
    """What `BETA:POLICY` says: the teacher's share in [0, 1], and the other policy as it would be asked for alone."""

    beta: float
    inner: str

    @classmethod
    def read(cls, argument: str | None) -> Parts:
        """Errors: `UsageError` for a BETA that is no share, no other policy, or a mixture in a mixture."""
        beta, _, inner = (argument or "").partition(":")
        shown = repr(f"{NAME}:{argument}" if argument else NAME)
        if not inner:
            raise UsageError(f"policy {shown} lacks BETA or the other policy; {FORM}")
        if inner.partition(":")[0] == NAME:
            raise UsageError(f"policy {shown} is a mixture in a mixture; {FORM}")
        return cls(_share(beta, shown), inner)


def _share(text: str, shown: str) -> float:
    try:
        beta = float(text)
    except ValueError:
        beta = -1.0
    if not 0.0 <= beta <= 1.0:
        raise UsageError(f"policy {shown}: BETA is {text!r}, must be a number from 0 to 1; {FORM}")
    return beta


class MixturePolicy:
    """Draws from a stream of its own, so that the other policy's generator is the one it would have alone."""

    def __init__(self, context: PolicyContext) -> None:
        parts = Parts.read(context.argument)
        self._teacher = teacher_of(NAME, context.scenario)
        self._beta = parts.beta
        self.inner = context.make(parts.inner)
        self._rng = np.random.default_rng(0)

    def reset(self, key: EpisodeKey, rng: np.random.Generator) -> None:
        self._rng = substream(rng, NAME)
        if isinstance(self.inner, HasReset):
            self.inner.reset(key, rng)

    def at(self, tick: int) -> None:
        if isinstance(self.inner, SeesTick):
            self.inner.at(tick)

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        if self._rng.random() < self._beta:
            return Answer(self._teacher(snapshot), asked=False, acted_by="teacher")
        return self.inner.act(snapshot, text, options, instructions)

    def describe(self) -> PolicyDescription:
        """Model, provider and checkpoint are the other policy's: it is the one that is asked."""
        inner = self.inner.describe()
        return PolicyDescription(
            name=f"{NAME}:{self._beta:.12g}:{inner.name}",
            kind=inner.kind,
            model=inner.model,
            provider=inner.provider,
            checkpoint_hash=inner.checkpoint_hash,
            settings={"beta": self._beta},
            note=_NOTE.format(beta=f"{self._beta:.12g}", inner=inner.name),
            inner=inner,
        )

    @property
    def needs_frames(self) -> bool:
        return bool(getattr(self.inner, "needs_frames", False))

    @property
    def needs_gpu(self) -> bool:
        return bool(getattr(self.inner, "needs_gpu", False))

    def check_scenario(self, scenario: Scenario) -> None:
        if isinstance(self.inner, ChecksScenario):
            self.inner.check_scenario(scenario)

    def try_out(self, options: tuple[str, ...], instructions: str | None) -> None:
        if isinstance(self.inner, TriesOut):
            self.inner.try_out(options, instructions)

    def close(self) -> None:
        close_policy(self.inner)
