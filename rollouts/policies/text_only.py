"""Widens a text-only backend to a policy, so that the backend never has to know that episodes exist."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rollouts.records import Answer, PolicyDescription, Snapshot


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
