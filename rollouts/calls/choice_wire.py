"""Decision endpoints: `POST {base}/systemone` with a state, instructions and the options of one question.

    {"state": …, "instructions": …, "questions": {"decision": {"type": "choice", "options": […]}}}
    {"results": {"decision": {"choice": …, "probabilities": {option: number}, "confidence": number}}}

The request's system part is the instructions, its last message the state, its schema's `enum` the options. The reply's
content is the JSON text of `results.decision`. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from rollouts.calls.call_failures import Failure, bad_reply_failure, status_failure
from rollouts.calls.chat_records import ChatReply, ChatRequest
from rollouts.calls.dialect import Body, encodable

QUESTION = "decision"


def build_choice(request: ChatRequest, lessons: Collection[str]) -> Body:
    """There is nothing in it that an endpoint could refuse and be asked without."""
    del lessons
    told = "\n".join(message.text for message in request.messages if message.role == "system")
    options = [] if request.schema is None else list(request.schema.schema["enum"])
    fields = {
        "state": encodable(request.messages[-1].text),
        "instructions": encodable(told),
        "questions": {QUESTION: {"type": "choice", "options": options}},
    }
    return Body(fields, frozenset(), ())


def read_choice(data: object, headers: Mapping[str, str], key: str | None = None) -> ChatReply | Failure:
    """The reply in a body that came with status 200, or what is wrong with it."""
    fields = _dict(data)
    if fields.get("error"):
        return status_failure(500, headers, fields, key)
    decision = _dict(fields.get("results")).get(QUESTION)
    if not isinstance(decision, dict):
        return bad_reply_failure(f"the reply has no results.{QUESTION}", key)
    usage, model = _dict(fields.get("usage")), fields.get("model")
    return ChatReply(
        content=json.dumps(decision, ensure_ascii=False),
        model=model if isinstance(model, str) else None,
        request_id=headers.get("x-request-id"),
        tokens_in=_int(usage.get("prompt_tokens")),
        tokens_out=_int(usage.get("completion_tokens")),
    )


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
