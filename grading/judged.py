"""A call to a model together with the judgement of its reply: what the `calls` table keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rollouts.calls.chat_records import ChatReply, ChatRequest
from rollouts.calls.replies import Cause


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """`validated`: the reply gave a verdict, or an entry for at least one pair. Only such a reply may be used again for
    an equal request. `cause` and `detail` say what was wrong with it, if anything (a pair may be missing)."""

    request: ChatRequest
    reply: ChatReply
    validated: bool
    cause: Cause | None = None
    detail: str | None = None


Observer = Callable[[JudgedCall], None]
"""Told of each reply as soon as it is judged, so that it can be stored before the next question is asked."""


def ignore(_call: JudgedCall) -> None:
    """The observer that does nothing."""
