"""What an endpoint understands: the body of a request, without what this endpoint is known to refuse.

A *lesson* is the name of something that was refused. Each has one consequence: it is left out, or something else is
sent instead (`max_tokens` → `max_completion_tokens`; `json_schema` → `json_object` → nothing).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rollouts.calls.call_failures import PICTURE_LIMIT
from rollouts.calls.chat_records import ChatMessage, ChatRequest

LESSONS = (
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "json_schema",
    "json_object",
    "logprobs",
    "seed",
    "images",
)
REFUSING_STATUSES = frozenset({400, 403, 404, 405, 415, 422, 500, 501})
_REFUSING = re.compile(
    r"support|unrecogni[sz]ed|unknown|unexpected|not allowed|not permitted|forbidden|unavailable|not available"
    r"|invalid|extra (inputs|fields)|deprecated|multi-?modal|mmproj|must contain the word|only the default|cannot"
    r"|can't|disabled",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(r"context.?(length|window|size)|too (large|long|many tokens)|exceed", re.IGNORECASE)
_BAD_PICTURE = re.compile(
    r"format|dimension|download|base64|decod|corrupt|pixels|truncated|invalid image", re.IGNORECASE
)
_MENTIONS = {
    "max_completion_tokens": re.compile(r"max_completion_tokens"),
    "max_tokens": re.compile(r"max_tokens"),
    "temperature": re.compile(r"temperature"),
    "json_schema": re.compile(r"json_schema|response_format|guided|grammar|structured.?output"),
    "json_object": re.compile(r"json_object|response_format|json mode|guided|grammar", re.IGNORECASE),
    "logprobs": re.compile(r"logprob"),
    "seed": re.compile(r"\bseed\b"),
    "images": re.compile(r"image|vision|multi-?modal|mmproj", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent. `sent` holds the lessons that this body could still teach; `adjustments` what differs from what
    was asked for."""

    fields: dict[str, Any]
    sent: frozenset[str]
    adjustments: tuple[str, ...]


def build_body(request: ChatRequest, lessons: Collection[str]) -> Body:
    """The body of a chat completion for an endpoint that refuses `lessons`."""
    draft = _Draft(request, lessons)
    draft.add_messages()
    draft.add_max_tokens()
    draft.add("temperature", request.temperature)
    draft.add("seed", request.seed)
    draft.add_format()
    draft.add_logprobs()
    return Body(draft.fields, frozenset(draft.sent), tuple(draft.changes))


def learn(status: int | None, param: str | None, message: str, body: Body) -> str | None:
    """The lesson in an error reply: which thing that was sent does this endpoint refuse?

    None where the error is another. `param` is what the endpoint itself named. A prompt that is too long mentions
    max_tokens too, and so may one with too many pictures: these are no refusals.
    """
    if status not in REFUSING_STATUSES or _TOO_LONG.search(message) or PICTURE_LIMIT.search(message):
        return None
    if param:
        named = _first_mentioned(param, body)
        return _first_mentioned(message, body) if named is None and param.startswith("messages") else named
    return _first_mentioned(message, body) if _REFUSING.search(message) else None


def _first_mentioned(text: str, body: Body) -> str | None:
    """One picture that cannot be read is no reason to show no pictures any more."""
    names = [name for name, pattern in _MENTIONS.items() if name in body.sent and pattern.search(text)]
    return next((name for name in names if name != "images" or not _BAD_PICTURE.search(text)), None)


class _Draft:
    """A body in the making."""

    def __init__(self, request: ChatRequest, lessons: Collection[str]) -> None:
        self.fields: dict[str, Any] = {"model": request.model}
        self.sent: set[str] = set()
        self.changes: list[str] = []
        self._request = request
        self._lessons = lessons

    def takes(self, name: str) -> bool:
        """Whether `name` may be sent, noting that it is, or that it is left out."""
        if name in self._lessons:
            self.changes.append(f"-{name}")
            return False
        self.sent.add(name)
        return True

    def add(self, name: str, value: object) -> None:
        if value is not None and self.takes(name):
            self.fields[name] = value

    def add_messages(self) -> None:
        messages = self._request.messages
        pictures = any(message.images for message in messages) and self.takes("images")
        self.fields["messages"] = [_message(message, pictures) for message in messages]

    def add_max_tokens(self) -> None:
        if self._request.max_tokens is not None:
            name = self._first_of("max_tokens", "max_completion_tokens")
            if name is not None:
                self.fields[name] = self._request.max_tokens

    def add_format(self) -> None:
        schema = self._request.schema
        if schema is None:
            return
        name = self._first_of("json_schema", "json_object")
        if name == "json_schema":
            strict = {"name": schema.name, "schema": dict(schema.schema), "strict": True}
            self.fields["response_format"] = {"type": name, "json_schema": strict}
        elif name is not None:
            self.fields["response_format"] = {"type": name}

    def add_logprobs(self) -> None:
        top = self._request.top_logprobs
        if top is not None and self.takes("logprobs"):
            self.fields["logprobs"] = True
            if top > 0:
                self.fields["top_logprobs"] = top

    def _first_of(self, wanted: str, instead: str) -> str | None:
        """The first of the two that is not refused; the change is noted where it is not what was wanted."""
        for name in (wanted, instead):
            if name not in self._lessons:
                self.sent.add(name)
                if name != wanted:
                    self.changes.append(f"{wanted}->{name}")
                return name
        self.changes.append(f"-{wanted}")
        return None


def _message(message: ChatMessage, pictures: bool) -> dict[str, Any]:
    text = encodable(message.text)
    if not message.images or not pictures:
        return {"role": message.role, "content": text}
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    parts += [{"type": "image_url", "image_url": {"url": url}} for url in message.images]
    return {"role": message.role, "content": parts}


def encodable(text: str) -> str:
    """`text` as UTF-8 can carry it: half of a surrogate pair becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")
