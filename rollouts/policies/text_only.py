"""Widens a text-only backend to a policy, so that the backend never has to know that episodes exist."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rollouts.policies.answer_check import checked_answer
from rollouts.records import Answer, PolicyDescription, Snapshot

_SAMPLE = "No monster is visible. Health is 100. Ammo is 26. Kills so far: 0."


@runtime_checkable
class TextBackend(Protocol):
    """Reads the state text, returns its answer."""

    def predict_choice(self, text: str, options: tuple[str, ...], instructions: str | None) -> Answer: ...

    def describe(self) -> PolicyDescription: ...


class TextOnlyPolicy:
    """A policy that shows its backend the text and nothing else."""

    def __init__(self, backend: TextBackend) -> None:
        self._backend = backend

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:  # noqa: ARG002
        return self._backend.predict_choice(text, options, instructions)

    def describe(self) -> PolicyDescription:
        return self._backend.describe()

    def try_out(self, options: tuple[str, ...], instructions: str | None) -> None:
        """Ask one question, which no backend of this kind can tell from one of a game, nor remember.

        Errors: TypeError or ValueError where the answer breaks the contract; what it chose does not matter, and an
        exception of its own is data like any that it raises in a game.
        """
        try:
            answer = self._backend.predict_choice(_SAMPLE, options, instructions)
        except (Exception, SystemExit):  # noqa: BLE001  whatever a policy raises
            return
        checked_answer(answer, None)
