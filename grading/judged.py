"""A call to a model together with the judgement of its reply: what the `calls` table keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rollouts.chat_records import ChatReply, ChatRequest
from rollouts.replies import Cause


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """`cause` is None exactly when the reply was valid; only such a reply may be used again for an equal request."""

    request: ChatRequest
    reply: ChatReply
    cause: Cause | None = None
    detail: str | None = None

    @property
    def validated(self) -> bool:
        return self.cause is None


Observer = Callable[[JudgedCall], None]
"""Told of each reply as soon as it is judged, so that it can be stored before the next question is asked."""


def ignore(_call: JudgedCall) -> None:
    """The observer that does nothing."""
