"""What graders and summarizers must answer, read strictly: all fields or a refusal with its cause.

Built on rollouts/calls/replies.py (causes, JSON). Mended and flagged: an extra key is dropped, a label is trimmed and
case-folded, a one-key wrapper around an array is taken off. Nothing else is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rollouts.calls.chat_records import ChatReply
from rollouts.calls.replies import (
    Cause,
    ReplyRefused,
    answer_text,
    need,
    need_number,
    need_text,
    partial_text,
    read_json,
    shown,
    strict_loads,
    unwrap,
)

AXES = ("goal_achievement", "process_quality", "user_satisfaction")
Label = Literal["success", "partial", "failure", "unknown"]
LABELS: tuple[Label, ...] = get_args(Label)
VERDICT_KEYS = (*AXES, "label", "reason")
ENTRY_KEYS = ("tool_call", "summary", "tool_call_id", "timestamp", "score")
MAX_SCORE = 10.0
_ARRAY_START = re.compile(r'\A\s*(?:\{\s*"(?:[^"\\]|\\.)*"\s*:\s*)?\[')
_FENCE_START = re.compile(r"\A(?:`{3,}|~{3,})[\w+-]*[ \t]*\r?\n")
_BETWEEN = re.compile(r"[\s,]*")
_PLACE = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A grader's valid reply: each axis in [-1, 1]."""

    goal_achievement: float
    process_quality: float
    user_satisfaction: float
    label: Label
    reason: str
    flags: tuple[str, ...] = ()


def read_verdict(reply: ChatReply) -> Verdict:
    """The verdict in a grader's reply; raises `ReplyRefused`."""
    answer = read_json(answer_text(reply))
    fields = _as_object(answer.value)
    for key in VERDICT_KEYS:
        need(fields, key)
    goal, process, satisfaction = (need_number(fields, axis, -1.0, 1.0) for axis in AXES)
    label, mended = _label(fields["label"])
    flags = (*answer.flags, *mended, *_extra_keys(fields, VERDICT_KEYS))
    return Verdict(goal, process, satisfaction, label, need_text(fields, "reason"), flags)


def _as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ReplyRefused(Cause.NOT_JSON, f"one JSON object was asked for, not {shown(value)}")
    return value


def _label(value: Any) -> tuple[Label, tuple[str, ...]]:
    text = value.strip().casefold() if isinstance(value, str) else None
    for label in LABELS:
        if text == label:
            return label, () if value == label else ("label_mended",)
    raise ReplyRefused(Cause.UNKNOWN_LABEL, f"label = {shown(value)}")


def _extra_keys(fields: Mapping[str, Any], known: Collection[str]) -> tuple[str, ...]:
    return tuple(f"extra_key:{shown(key)}" for key in sorted(fields) if key not in known)


@dataclass(frozen=True, slots=True)
class EntryReply:
    """A summarizer's valid object for one pair; `score` in [0, 10]. Its id and timestamp are not kept: ours are."""

    tool_call: str
    summary: str
    score: float
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryReplies:
    """A summarizer's reply taken apart: every asked id is in exactly one of `entries` and `refused`.

    `flags` tell what was taken off the reply and that it named ids nobody asked for.
    """

    entries: Mapping[str, EntryReply]
    refused: Mapping[str, ReplyRefused]
    flags: tuple[str, ...] = ()
    cut_off: bool = False


def read_entries(reply: ChatReply, ids: Sequence[str]) -> EntryReplies:
    """Matches the reply's objects to `ids` by `tool_call_id`, never by position.

    Of a cut-off reply the whole objects are read; what is missing then has the cause `cut_off`. Raises `ReplyRefused`
    where the reply as a whole is of no use.
    """
    cut_off = reply.finish_reason == "length"
    objects, flags = _array_beginning(partial_text(reply)) if cut_off else _array(answer_text(reply))
    named = Counter(_id_of(found) for found in objects)
    by_id = {_id_of(found): found for found in objects}
    entries: dict[str, EntryReply] = {}
    refused: dict[str, ReplyRefused] = {}
    for key in ids:
        try:
            entries[key] = _entry(key, named[key], by_id.get(key), cut_off)
        except ReplyRefused as error:
            refused[key] = error
    invented = sum(count for key, count in named.items() if key not in ids)
    return EntryReplies(entries, refused, (*flags, *(("invented_id",) if invented else ())), cut_off)


def _entry(key: str, times: int, fields: Any, cut_off: bool) -> EntryReply:
    if times == 0:
        raise ReplyRefused(Cause.CUT_OFF if cut_off else Cause.MISSING_ENTRY, shown(key))
    if times > 1:
        raise ReplyRefused(Cause.DOUBLED_ENTRY, f"{shown(key)} stands {times} times")
    texts = {name: need_text(fields, name) for name in ("tool_call", "summary", "timestamp")}
    score = need_number(fields, "score", 0.0, MAX_SCORE)
    return EntryReply(texts["tool_call"], texts["summary"], score, _extra_keys(fields, ENTRY_KEYS))


def _id_of(found: Any) -> str | None:
    key = found.get("tool_call_id") if isinstance(found, dict) else None
    return key if isinstance(key, str) else None


def _array(text: str) -> tuple[list[Any], tuple[str, ...]]:
    answer = read_json(text)
    if isinstance(answer.value, list):
        return answer.value, answer.flags
    values = list(answer.value.values()) if isinstance(answer.value, dict) else []
    if len(values) == 1 and isinstance(values[0], list):
        return values[0], (*answer.flags, "wrapper")
    raise ReplyRefused(Cause.NOT_JSON, f"one JSON array was asked for, not {shown(answer.value)}")


def _array_beginning(text: str) -> tuple[list[Any], tuple[str, ...]]:
    """The complete objects at the beginning of an array that breaks off."""
    bare, flags = unwrap(text)
    bare = _FENCE_START.sub("", bare)
    start = _ARRAY_START.match(bare)
    if start is None:
        raise ReplyRefused(Cause.CUT_OFF, "finish_reason = length, before the first object")
    found: list[Any] = []
    at = _BETWEEN.match(bare, start.end()).end()  # type: ignore[union-attr]
    while bare.startswith("{", at):
        try:
            _, end = _PLACE.raw_decode(bare, at)
            found.append(strict_loads(bare[at:end]))
        except (ValueError, RecursionError):
            break
        at = _BETWEEN.match(bare, end).end()  # type: ignore[union-attr]
    return found, (*flags, "cut_off")
