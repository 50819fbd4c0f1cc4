"""Names that are safe as one path component, on every file system and object store; and counts in words."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_UNSAFE = re.compile(r"[^a-z0-9._-]+")
MAX_SLUG = 60


@functools.lru_cache(maxsize=256)
def slug(name: str) -> str:
    """`name` in `[a-z0-9._-]`, at most 60 characters; where anything was changed, `-` and 8 hex of the exact name.

    Distinct names keep distinct slugs, and none can be hidden (`.x`, `_x`) or climb out of its folder (`..`).
    """
    safe = _UNSAFE.sub("-", name.lower())[:MAX_SLUG].lstrip("._-")
    if safe == name and safe:
        return name
    return f"{safe or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def counted(n: int, noun: str) -> str:
    """`1 grading`, `2 gradings`, `2 entries`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {_plural(noun)}"


def _plural(noun: str) -> str:
    ends_in_y = noun.endswith("y") and noun[-2] not in "aeiou"
    return f"{noun[:-1]}ies" if ends_in_y else f"{noun}s"


def identified(name: str, identity: Mapping[str, Any]) -> str:
    """`<slug>-<8 hex of the identity>`: a folder name."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    return f"{slug(name)}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
