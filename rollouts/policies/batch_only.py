"""Widens a policy that only answers batches to one that answers a decision at a time."""

from __future__ import annotations

from collections.abc import Sequence

from rollouts.policies.base import ActsInBatches, ChecksScenario, Question, close_policy
from rollouts.records import Answer, PolicyDescription, Snapshot
from rollouts.scenarios.scenario import Scenario


class BatchOnlyPolicy:
    """Asks for batches of one; whoever has many questions asks it directly."""

    def __init__(self, batches: ActsInBatches) -> None:
        self._batches = batches
        self.needs_frames: bool | None = getattr(batches, "needs_frames", None)
        self.needs_gpu = bool(getattr(batches, "needs_gpu", False))

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        (answer,) = self.act_batch([Question(snapshot, text, options, instructions)])
        return answer

    def act_batch(self, questions: Sequence[Question]) -> Sequence[Answer]:
        return self._batches.act_batch(questions)

    def describe(self) -> PolicyDescription:
        return self._batches.describe()

    def check_scenario(self, scenario: Scenario) -> None:
        if isinstance(self._batches, ChecksScenario):
            self._batches.check_scenario(scenario)

    def close(self) -> None:
        close_policy(self._batches)
