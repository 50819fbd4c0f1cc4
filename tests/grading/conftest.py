from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from rollouts.calls.chat_records import ChatReply, ChatRequest


class ScriptedCall:
    """Answers in the given order and keeps what it was asked; a reply may be computed from its request."""

    def __init__(self, replies: Iterable[ChatReply | str | Exception | Callable[[ChatRequest], str]]) -> None:
        self.requests: list[ChatRequest] = []
        self._replies = iter(replies)

    async def __call__(self, request: ChatRequest, /) -> ChatReply:
        self.requests.append(request)
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ChatReply):
            return reply
        text = reply if isinstance(reply, str) else reply(request)
        return ChatReply(text, finish_reason="stop", model="judge-1")


@pytest.fixture
def scripted() -> type[ScriptedCall]:
    return ScriptedCall
