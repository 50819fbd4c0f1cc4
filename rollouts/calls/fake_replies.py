"""What a fake endpoint says: replies to script, faults to script, and plausible answers where nothing is scripted.

Pure: from the body of a request to the bytes of a reply. Knows nothing of sockets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Fault = Literal["silence", "headers_then_silence", "comments", "drip", "reset", "drop"]

_FENCED = re.compile(r"^(`{3,})\n.*?\n\1$", re.MULTILINE | re.DOTALL)
_PAIR_ID = re.compile(r'^\s*(?:tool_call_)?id\s*[:=]\s*("(?:[^"\\]|\\.)*"|\S+)', re.MULTILINE)
_GRADE = {
    "goal_achievement": 0.4,
    "process_quality": 0.1,
    "user_satisfaction": 0.0,
    "label": "partial",
    "reason": "Most of what was asked was done.",
}


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """One request as it arrived. Times are seconds of `time.monotonic`. The key itself is never kept."""

    number: int
    at_s: float
    method: str
    path: str
    body: Mapping[str, Any]
    has_key: bool

    @property
    def text(self) -> str:
        """All messages of the request, as one text."""
        return "\n".join(_message_text(message) for message in self.messages)

    @property
    def instructions(self) -> str:
        """What the asker itself says: the system's messages, or the first one where there is none."""
        own = [message for message in self.messages if message.get("role") in ("system", "developer")]
        return "\n".join(_message_text(message) for message in own or self.messages[:1])

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        return [message for message in self.body.get("messages") or () if isinstance(message, dict)]


@dataclass(frozen=True, slots=True)
class FakeReply:
    """What to send, `delay_s` after the request. A fault replaces or spoils the reply:

    silence: nothing at all; headers_then_silence: a status line and headers only; comments: an SSE comment every 50 ms;
    drip: the reply a byte every 50 ms; reset: the connection breaks in mid-body; drop: it closes before any reply.
    """

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    fault: Fault | None = None


Script = Callable[[FakeRequest], FakeReply | None]
"""The reply to a request; None leaves it to the plausible default."""


def completion(
    content: object,
    *,
    finish_reason: str = "stop",
    delay_s: float = 0.0,
    usage: Mapping[str, Any] | None = None,
    message: Mapping[str, Any] | None = None,
) -> FakeReply:
    """A chat completion that says `content`; `message` adds or replaces fields of the message."""
    said = {"role": "assistant", "content": content, **(message or {})}
    choices = [{"index": 0, "finish_reason": finish_reason, "message": said}]
    return FakeReply(body={"choices": choices, **({"usage": dict(usage)} if usage else {})}, delay_s=delay_s)


def failing(
    status: int, message: str = "no", *, code: str | None = None, param: str | None = None, **headers: str
) -> FakeReply:
    """An error in OpenAI's shape. Header names are written with `_` for `-`: `retry_after="3"`."""
    error = {"message": message, "type": "invalid_request_error" if status < 429 else "server_error"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return FakeReply(status, {"error": {**error, "code": code, "param": param}}, named)


def rate_limited(**headers: str) -> FakeReply:
    return failing(429, "Rate limit reached for requests", code="rate_limit_exceeded", **headers)


def quota_exhausted() -> FakeReply:
    return failing(429, "You exceeded your current quota, please check your plan.", code="insufficient_quota")


def unsupported(param: str) -> FakeReply:
    """The endpoint does not know, or does not take, a parameter of the request."""
    message = f"Unsupported parameter: '{param}' is not supported with this model."
    return failing(400, message, code="unsupported_parameter", param=param)


def broken(fault: Fault) -> FakeReply:
    return FakeReply(body={}, fault=fault)


def plausible(request: FakeRequest) -> FakeReply:
    """A grade for a grader, an entry a pair for a summarizer, a short text for everybody else.

    Who asks is read from what is the asker's own, never from what it quotes.
    """
    asked = request.instructions
    if "goal_achievement" in asked:
        return completion(json.dumps(_GRADE))
    if "tool_call_id" in asked:
        return completion(_entries(request))
    return completion("OK")


def complete(request: FakeRequest, reply: FakeReply) -> object:
    """The reply's body with what every completion has: id, model, fingerprint, usage, logprobs where asked for."""
    if not isinstance(reply.body, dict) or not isinstance(reply.body.get("choices"), list):
        return reply.body
    content = _content(reply.body)
    base = {
        "id": f"chatcmpl-fake-{request.number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model", "fake"),
        "system_fingerprint": "fake",
        "usage": _usage(request.text, content),
    }
    choices = [_with_logprobs(request, choice, content) for choice in reply.body["choices"]]
    return {**base, **reply.body, "choices": choices}


def _entries(request: FakeRequest) -> str:
    last = [_message_text(message) for message in request.messages if message.get("role") == "user"][-1:]
    own = _FENCED.sub("", "".join(last))
    ids = list(dict.fromkeys(_unquoted(text) for text in _PAIR_ID.findall(own)))
    entries = [
        {"tool_call": "call", "summary": "Done as asked.", "tool_call_id": i, "timestamp": "-", "score": 5} for i in ids
    ]
    wrapped = request.body.get("response_format") or '"entries"' in own
    return json.dumps({"entries": entries} if wrapped else entries)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text


def _usage(asked: str, said: str) -> dict[str, Any]:
    tokens_in, tokens_out = len(asked.encode()) // 4 + 1, len(said.encode()) // 4 + 1
    details = {"cached_tokens": 0}
    total = tokens_in + tokens_out
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": total,
        "prompt_tokens_details": details,
    }


def _with_logprobs(request: FakeRequest, choice: object, content: str) -> object:
    if not request.body.get("logprobs") or not isinstance(choice, dict) or "logprobs" in choice:
        return choice
    tokens = [{"token": word, "logprob": -0.1, "top_logprobs": []} for word in re.findall(r"\s*\S+", content)]
    return {**choice, "logprobs": {"content": tokens}}


def _content(body: Mapping[str, Any]) -> str:
    choice = next(iter(body["choices"]), None)
    message = choice.get("message") if isinstance(choice, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


def _message_text(message: object) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
