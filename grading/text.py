"""Foreign text inside a prompt: cut by whole characters, and written so that nothing in it can end its block."""

from __future__ import annotations

import json
import re
import unicodedata

_LINE_ENDERS_AND_HIDDEN = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_JOINER = "\u200d"
_MAX_BACK = 16


def cut(text: str, limit: int, mark: str = "...") -> str:
    """The first `limit` characters and, beyond them, `mark`, if there is more; never within a composed character."""
    if len(text) <= limit:
        return text
    return text[: _boundary(text, limit)] + mark


def cut_within(text: str, limit: int, mark: str = "…") -> str:
    """As `cut`, but the mark counts: the result has at most `limit` characters."""
    if len(text) <= limit:
        return text
    return text[: _boundary(text, max(limit - len(mark), 0))] + mark[:limit]


def _boundary(text: str, at: int) -> int:
    """The nearest place at or before `at` where no combining mark, variation selector or joiner binds both sides."""
    for place in range(at, max(at - _MAX_BACK, 0), -1):
        if not _binds(text[place]) and text[place - 1] != _JOINER:
            return place
    return at


def _binds(character: str) -> bool:
    return (
        character == _JOINER or unicodedata.category(character)[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def quote(text: str) -> str:
    """`text` as a JSON string on one line, non-ASCII kept: it can neither start a line nor leave its quotes."""
    return _LINE_ENDERS_AND_HIDDEN.sub(lambda m: f"\\u{ord(m.group()):04x}", json.dumps(text, ensure_ascii=False))


def fence(text: str) -> str:
    """`text` itself between two rows of backticks longer than any row in it, which therefore cannot close it."""
    longest = max((len(row) for row in re.findall("`+", text)), default=0)
    row = "`" * max(3, longest + 1)
    return f"{row}\n{_SURROGATES.sub('�', text)}\n{row}"


def as_text(value: object) -> str:
    """A tool's params or result as text: null is empty, text is itself, else compact JSON (fallback: `str`)."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
