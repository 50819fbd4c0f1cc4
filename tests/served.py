"""Policies that answer in batches, importable as `tests.served:NAME`, for runs with policy servers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from rollouts.policies.base import Question
from rollouts.records import Answer, PolicyDescription, Snapshot

MARK = "ROLLOUTS_TEST_SERVER_MARK"


class Spells:
    """The option that the length of the text says: another one each time, and the same wherever it is asked."""

    name = "spells"
    needs_frames = False

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        return [Answer(q.options[len(q.text) % len(q.options)], raw_reply=str(os.getpid())) for q in questions]

    def describe(self) -> PolicyDescription:
        return PolicyDescription(self.name, "model", model="spelling")


class _Trips(Spells):
    """Once, at its 20th question: `mishap`. What happened is remembered in the file that MARK names."""

    def __init__(self) -> None:
        self._questions = 0

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        self._questions += len(questions)
        mark = os.environ.get(MARK)
        if mark and self._questions >= 20 and not Path(mark).exists():
            Path(mark).touch()
            self.mishap()
        return super().act_batch(questions)

    def mishap(self) -> None: ...


class Dies(_Trips):
    def mishap(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Spells):
    """Once, where a text names a file that is not there yet."""

    name = "hangs"

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        for question in questions:
            if question.text.startswith("/") and not Path(question.text).exists():
                Path(question.text).touch()
                time.sleep(3600)
        return super().act_batch(questions)


class Remembers(Spells):
    """Has episodes, so that no server can hold it."""

    name = "remembers"

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        return self.act_batch([Question(snapshot, text, options, instructions)])[0]

    def reset(self, key: object, rng: object) -> None: ...
