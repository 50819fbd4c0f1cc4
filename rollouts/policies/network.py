"""A local network as a policy: what it sees goes in, a score an option comes out, the softmax is the answer.

Knows nothing of torch or ONNX: a network is a function from an array to an array of scores (n, options).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollouts.errors import UsageError
from rollouts.policies.base import Question
from rollouts.policies.network_inputs import Frames, Inputs
from rollouts.records import Answer, PolicyDescription, Snapshot
from rollouts.scenarios.scenario import Scenario
from rollouts.scrub import describe_error

Score = Callable[[NDArray[np.generic]], NDArray[np.floating]]


@dataclass(frozen=True)
class Network:
    """`score` maps what `inputs` sees to finite numbers (n, options), in the order of `options` where they are known,
    else in the scenario's; its array is its own to write to."""

    inputs: Inputs
    score: Score
    options: tuple[str, ...] | None


class NetworkPolicy:
    """Chooses the option with the highest score. Probabilities are the softmax, confidence is the highest of them."""

    def __init__(self, network: Network, who: PolicyDescription, scenario: Scenario) -> None:
        """Errors: UsageError where the network cannot be run, or not for this scenario."""
        self._network = network
        self._who = who
        self._n_scores = self._count_scores()
        self.check_scenario(scenario)

    @property
    def needs_frames(self) -> bool:
        return self._network.inputs.observes == "frame"

    @property
    def looks(self) -> Frames | None:
        """What it sees of a frame; None where it sees no frames."""
        inputs = self._network.inputs
        return inputs if isinstance(inputs, Frames) else None

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        return self.act_batch([Question(snapshot, text, options, instructions)])[0]

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        """Errors: ValueError where there is no frame to look at, or the network's scores are no numbers."""
        begun_s = time.perf_counter()
        scores = self._network.score(self._network.inputs.see(questions))
        shares = softmax(np.asarray(scores, np.float64))
        latency_ms = (time.perf_counter() - begun_s) * 1000
        return [
            answer(row, self._network.options or question.options, latency_ms)
            for row, question in zip(shares, questions, strict=True)
        ]

    def describe(self) -> PolicyDescription:
        return self._who

    def check_scenario(self, scenario: Scenario) -> None:
        """Errors: UsageError naming both sets of options."""
        known = self._network.options
        if known is not None and set(known) != set(scenario.options):
            raise UsageError(
                f"policy {self._who.name!r} knows the options {', '.join(known)}; "
                f"scenario {scenario.name!r} has {', '.join(scenario.options)}"
            )
        if self._n_scores != len(known or scenario.options):
            raise UsageError(
                f"policy {self._who.name!r} gives {self._n_scores} scores, "
                f"but there are {len(known or scenario.options)} options: {', '.join(known or scenario.options)}"
            )

    def _count_scores(self) -> int:
        """From a try with zeros."""
        blank = self._network.inputs.blank(2)
        try:
            scores = self._network.score(blank)
        except Exception as error:
            raise UsageError(f"{self._cannot(blank)}: {describe_error(error)}") from error
        if scores.ndim != 2 or scores.shape[0] != 2:
            raise UsageError(f"{self._cannot(blank)}: it gives {scores.shape}, not (2, number of options)")
        return int(scores.shape[1])

    def _cannot(self, blank: NDArray[np.generic]) -> str:
        return f"policy {self._who.name!r} cannot be run on {blank.dtype} {blank.shape}"


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row. Errors: ValueError where a score is no finite number."""
    if not np.isfinite(scores).all():
        raise ValueError("the network's scores are not all finite numbers")
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def answer(shares: NDArray[np.float64], options: Sequence[str], latency_ms: float) -> Answer:
    """The option with the largest share; the first of them where several are."""
    best = int(shares.argmax())
    probabilities = dict(zip(options, map(float, shares), strict=True))
    return Answer(options[best], probabilities, confidence=float(shares[best]), latency_ms=latency_ms)
