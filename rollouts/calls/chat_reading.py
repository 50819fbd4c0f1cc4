"""Reads a chat completion as endpoints really send it: fields may be missing, null or of another kind.

Pure. Nothing is guessed: what is not there is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.calls.call_failures import Failure, bad_reply_failure, status_failure
from rollouts.calls.chat_records import ChatReply, TokenLogprob


def read_completion(data: object, headers: Mapping[str, str], key: str | None = None) -> ChatReply | Failure:
    """The reply in a body that came with status 200, or what is wrong with it.

    Empty choices, a null message and null content are replies too (content None): what they mean is the reader's
    business. An `error` object, as gateways send it under status 200, is a failure.
    """
    if not isinstance(data, dict):
        return bad_reply_failure(f"the reply is not a JSON object but {type(data).__name__}")
    if data.get("error"):
        return status_failure(_status_in(data["error"]), headers, data, key)
    if "choices" not in data:
        return bad_reply_failure("the reply has no choices")
    choice = _dict(_first(data["choices"]))
    message = _dict(choice.get("message"))
    usage = _dict(data.get("usage"))
    return ChatReply(
        content=_content(message.get("content")),
        finish_reason=_str(choice.get("finish_reason")),
        refusal=_str(message.get("refusal")),
        reasoning=_str(message.get("reasoning_content")) or _str(message.get("reasoning")),
        logprobs=_logprobs(_dict(choice.get("logprobs")).get("content")),
        model=_str(data.get("model")),
        system_fingerprint=_str(data.get("system_fingerprint")),
        request_id=headers.get("x-request-id") or _str(data.get("id")),
        tokens_in=_int(usage.get("prompt_tokens")),
        tokens_out=_int(usage.get("completion_tokens")),
        tokens_cached=_cached(usage),
    )


def _status_in(error: object) -> int:
    status = _int(_dict(error).get("code")) or _int(_dict(error).get("status"))
    return status if status is not None and 400 <= status < 600 else 500


def _content(content: object) -> str | None:
    """Text, or the text parts of a list of parts, joined."""
    if isinstance(content, list):
        texts = [_str(_dict(part).get("text")) for part in content]
        return "".join(text for text in texts if text is not None) if any(t is not None for t in texts) else None
    return _str(content)


def _cached(usage: dict[str, Any]) -> int | None:
    details = _int(_dict(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return details if details is not None else _int(usage.get("prompt_cache_hit_tokens"))


def _logprobs(content: object) -> tuple[TokenLogprob, ...] | None:
    if not isinstance(content, list):
        return None
    return tuple(_token(_dict(entry)) for entry in content if _is_token(entry))


def _token(entry: dict[str, Any]) -> TokenLogprob:
    alternatives = entry.get("top_logprobs")
    top = alternatives if isinstance(alternatives, list) else []
    pairs = tuple((str(a["token"]), float(a["logprob"])) for a in top if _is_token(a))
    return TokenLogprob(str(entry["token"]), float(entry["logprob"]), pairs)


def _is_token(entry: object) -> bool:
    fields = _dict(entry)
    logprob = fields.get("logprob")
    return isinstance(fields.get("token"), str) and isinstance(logprob, int | float) and not isinstance(logprob, bool)


def _first(choices: object) -> object:
    return choices[0] if isinstance(choices, list) and choices else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _str(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
