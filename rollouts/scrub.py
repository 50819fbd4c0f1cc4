"""Error texts that may be stored: one bounded line without secrets."""

from __future__ import annotations

import os
import re

MAX_CHARACTERS = 500
MIN_SECRET = 12
"""Shorter values of variables named like secrets (`none`, `local`) may well be words that mean something else."""
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_TEXT = re.compile(
    r"\b(?:sk|hf|ghp|xox[a-z])[-_][A-Za-z0-9_-]{8,}"
    r"|(?i:\bbearer\s+)[^\s'\",;]+"
    r"|(?i:\b(?:api[_-]?key|token|secret|password|authorization)[\"']?\s*[=:]\s*[\"']?(?:bearer\s+)?)[^\s'\",;&]+"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)


def _secret_values() -> list[str]:
    return [value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= 6]


def holds_secret(text: str) -> str | None:
    """The environment variable named like a secret whose value is in `text`; None where there is none."""
    found = (name for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= MIN_SECRET)
    return next((name for name in found if os.environ[name] in text), None)


def scrub(text: str) -> str:
    """`text` on one line, secrets replaced by `[redacted]`, at most 500 characters.

    Secrets: values of environment variables named like one, and what looks like a key, a bearer token,
    `name=value` of a credential, or the credentials in a URL.
    """
    for value in _secret_values():
        text = text.replace(value, "[redacted]")
    line = " ".join(_SECRET_TEXT.sub("[redacted]", text).split())
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1] + "…"


def describe_error(error: BaseException) -> str:
    """`Type: message`, scrubbed: what a row, a log line or a manifest may say about an exception."""
    return scrub(f"{type(error).__name__}: {error}")
