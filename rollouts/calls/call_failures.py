"""What a failed request means: may a retry mend it, does the endpoint ask for less, is there no hope.

Pure: made from a status, headers and body, never from a client's own exceptions. Nothing here holds a key.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

LONGEST_MESSAGE = 300
_RETRIED = frozenset({408, 409, 425, 429})
_OVERLOADED = frozenset({429, 503, 529})
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded"})
_NO_MONEY = re.compile(r"insufficient (quota|balance|credit|funds)|exceeded your current quota|out of credits", re.I)
_TOO_LONG = re.compile(r"context.?(length|window|size)|maximum context|prompt is too long|too many tokens", re.I)
PICTURE_LIMIT = re.compile(
    r"(too many|at most|up to|more than|max(imum)?( number)?( of)?|limit (of|is)|exceeds?( the)?( limit of)?)"
    r" *\d* *(images?\b|image\(s\)|pictures?\b|multi-?modal)|number of (images|pictures)",
    re.IGNORECASE,
)
_FILTERED = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
_NAMES = {401: "unauthorized", 402: "quota", 403: "forbidden", 404: "not_found", 429: "rate_limited"}
_SECRETS = re.compile(r"\b(sk|pk|rk|key|gsk|hf|xai|nvapi)[-_][\w*.-]{6,}|(?i:bearer)\s+[\w.~+/*=-]+|//[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed try. `kind` is short and stable; `message` one scrubbed line; `param` what the endpoint named.

    `retry`: the same request may succeed later. `overloaded`: the endpoint asks for less. `fatal`: the same will
    happen to every request (a wrong key, no money left). `status` is None where no reply came. `may_have_cost`: the
    endpoint may have done the work all the same.
    """

    kind: str
    message: str
    retry: bool
    overloaded: bool = False
    fatal: bool = False
    status: int | None = None
    param: str | None = None
    retry_after_s: float | None = None
    may_have_cost: bool = False


def status_failure(status: int, headers: Mapping[str, str], body: object, key: str | None = None) -> Failure:
    """Reads an error reply. `key` is scrubbed from its text, and whatever else looks like one."""
    message, codes, param = _read_error(body)
    kind = _kind(status, codes, message, "retry-after" in headers or "retry-after-ms" in headers)
    retry = kind not in ("quota", "context_length", "content_filter") and (status in _RETRIED or status >= 500)
    return Failure(
        kind=kind,
        message=scrub(f"HTTP {status}: {message}" if message else f"HTTP {status}", key),
        retry=retry,
        overloaded=status in _OVERLOADED and retry,
        fatal=not retry and kind != "content_filter",
        status=status,
        param=param,
        retry_after_s=read_retry_after(headers) if retry else None,
    )


def timeout_failure(limit_s: float) -> Failure:
    return Failure("timeout", f"no answer within {limit_s:g} s", retry=True, may_have_cost=True)


def connection_failure(cause: str, key: str | None = None, sent: bool = True) -> Failure:
    """`sent` is False where there never was a connection."""
    return Failure("connection", scrub(cause, key), retry=True, may_have_cost=sent)


def bad_reply_failure(cause: str, key: str | None = None) -> Failure:
    """A reply with status 200 that is no chat completion."""
    return Failure("bad_reply", scrub(cause, key), retry=True, status=200, may_have_cost=True)


def read_retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait as asked: `retry-after-ms`, `Retry-After` in seconds or as an HTTP date (RFC 9110, 10.2.3).

    A date counts from the reply's own `Date`, so that a wrong clock on either side does not matter; `now` (seconds
    since 1970) where there is none. None where nothing readable is asked. `headers` ignores case.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    wanted, sent = _date(text), _date(headers.get("date"))
    if wanted is None:
        return None
    start = sent if sent is not None else (time.time() if now is None else now)
    return max(0.0, wanted - start)


def scrub(text: str, key: str | None = None) -> str:
    """One line of at most 300 characters without `key`, without what looks like a key, and without URL passwords."""
    line = " ".join(text.split())
    if key:
        line = line.replace(key, "[key]")
    line = _SECRETS.sub(lambda match: "//" if match.group().startswith("//") else "[key]", line)
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"


def _kind(status: int, codes: frozenset[str], message: str, waits: bool) -> str:
    if codes & _FILTERED:
        return "content_filter"
    if status == 402 or (status in (403, 429) and _is_quota(codes, message, waits)):
        return "quota"
    too_much = status in (400, 413, 422)
    if too_much and ("context_length_exceeded" in codes or _TOO_LONG.search(message)):
        return "context_length"
    if too_much and PICTURE_LIMIT.search(message):
        return "picture_limit"
    if status == 413:
        return "context_length"
    return _NAMES.get(status) or ("bad_request" if status in (400, 422) else f"http_{status}")


def _is_quota(codes: frozenset[str], message: str, waits: bool) -> bool:
    """A limit a minute may use the words of an empty account; but only that one says when to come back."""
    return bool(codes & _QUOTA_CODES) or (not waits and _NO_MONEY.search(message) is not None)


def _read_error(body: object) -> tuple[str, frozenset[str], str | None]:
    """Message, codes and parameter from the shapes that endpoints use: OpenAI's, FastAPI's `detail`, plain text."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return _text(error), frozenset(), None
    detail = error.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        where = [str(part) for part in detail[0].get("loc", ()) if part != "body"]
        return f"{'.'.join(where)}: {_text(detail[0].get('msg'))}", frozenset(), where[0] if where else None
    codes = frozenset(str(error[name]) for name in ("code", "type") if error.get(name) is not None)
    param = error.get("param")
    return _text(error.get("message") or detail or error), codes, None if param is None else str(param)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _date(text: Any) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
