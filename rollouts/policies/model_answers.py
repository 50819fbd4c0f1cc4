"""What becomes of a call that failed: the policy's answer (out of schema), a void try, or the end of the run. Pure."""

from __future__ import annotations

import re
from typing import NoReturn

from rollouts.calls.chat_records import CallError
from rollouts.errors import RunStopped, TryVoid
from rollouts.policies.reply_rules import SchemaError

TOO_LONG = "context_length"
TOO_MANY_PICTURES = "picture_limit"
_LIMIT = re.compile(r"(?:at most|maximum(?: of| is)?|limit(?: of| is)?|up to|more than)\D{0,30}(\d+)", re.IGNORECASE)
_ANSWERS = {
    "timeout": SchemaError.TIMEOUT,
    "content_filter": SchemaError.REFUSED,
    "bad_reply": SchemaError.ENDPOINT,
    "bad_request": SchemaError.ENDPOINT,
}
_HOPELESS = frozenset({"unauthorized", "forbidden", "not_found", "quota", TOO_LONG, TOO_MANY_PICTURES})
_REFUSED = {
    "logprobs_refused": "log-probabilities cannot be had: answer with --answer json or --answer plain",
    "images_refused": "it takes no pictures: use --observe text, or a model that sees",
}


def out_of_schema(error: CallError, who: str, where: str) -> SchemaError:
    """The cause that goes into the row, where the failure concerns this one decision.

    Raises `RunStopped` where no decision can go another way (key, quota, model, a refused parameter that the policy
    lives by), `TryVoid` where the endpoint is gone or overloaded after all retries.
    """
    if error.kind in _ANSWERS:
        return _ANSWERS[error.kind]
    if error.kind in _REFUSED:
        raise RunStopped(f"{who} at {where}: {_REFUSED[error.kind]} ({error.message})")
    if error.kind in _HOPELESS:
        raise RunStopped(f"{who} at {where}: {error.message}")
    raise TryVoid(f"{who} at {where}: {error.message}")


def picture_limit(message: str) -> int | None:
    """The most pictures that an endpoint says it takes in one request; None where it names no number."""
    found = _LIMIT.search(message)
    return int(found[1]) if found else None


def refuse_silence(who: str, where: str) -> NoReturn:
    """The endpoint took the request for log-probabilities and gave none."""
    raise RunStopped(f"{who} at {where}: the reply has no log-probabilities; {_REFUSED['logprobs_refused']}")
