"""The teacher as a policy: there for its outcomes; its agreement is a self-check, never ranked."""

from __future__ import annotations

from rollouts.policies.base import PolicyContext, refuse_argument, teacher_of
from rollouts.records import Answer, PolicyDescription, Snapshot


class OraclePolicy:
    """Probability and confidence 1 on the teacher's action, an explicit 0 on the others, latency 0."""

    def __init__(self, context: PolicyContext) -> None:
        refuse_argument("oracle", context)
        self._teacher = teacher_of("oracle", context.scenario)

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:  # noqa: ARG002
        action = self._teacher(snapshot)
        probabilities = {option: float(option == action) for option in options}
        return Answer(action, probabilities, confidence=1.0, latency_ms=0.0)

    def describe(self) -> PolicyDescription:
        return PolicyDescription("oracle", "rule", note="The scenario's written rule; no model is asked.")
