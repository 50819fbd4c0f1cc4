"""Strict reading of a model's reply, and the one table of causes for everything that cannot be used.

Knows nothing of graders, summarizers or games: it turns a `ChatReply` into text or into a JSON value, or refuses it.
The only things taken off an answer are a byte order mark, thinking before it, and one code fence around all of it;
each is flagged. Nothing is searched for inside chatter, clamped or guessed.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from rollouts.calls.chat_records import ChatReply
from rollouts.errors import RolloutsError


class Cause(StrEnum):
    """Why there is no result. The first group is about a reply; the rest is about what a reply was to be about."""

    CUT_OFF = "cut_off"
    REFUSED = "refused"
    FILTERED = "filtered"
    EMPTY = "empty"
    NOT_JSON = "not_json"
    AMBIGUOUS = "ambiguous"
    MISSING_KEY = "missing_key"
    NOT_A_NUMBER = "not_a_number"
    OUT_OF_RANGE = "out_of_range"
    UNKNOWN_LABEL = "unknown_label"
    ENDPOINT_ERROR = "endpoint_error"
    # a summarizer's objects, pair by pair
    MISSING_ENTRY = "missing_entry"
    DOUBLED_ENTRY = "doubled_entry"
    TOO_LONG = "too_long"
    # no model involved
    NO_BASELINE = "no_baseline"
    NO_FEEDBACK = "no_feedback"


class ReplyRefused(RolloutsError):
    """A reply that must not be used: `cause` from the table, `detail` one short line such as `score = 11`."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(f"{cause.value}: {detail}" if detail else cause.value)
        self.cause = cause
        self.detail = detail


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """The JSON value of a reply, and what was taken off around it (`bom`, `thinking`, `fence`)."""

    value: Any
    flags: tuple[str, ...] = ()


_THINKING = (
    (r"<think>", r"</think>"),
    (r"<thinking>", r"</thinking>"),
    (r"<thought>", r"</thought>"),
    (r"<reasoning>", r"</reasoning>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"◁think▷", r"◁/think▷"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|channel\|>analysis<\|message\|>", r"<\|channel\|>final<\|message\|>"),
)
_OPENINGS = tuple((re.compile(r"\s*" + o, re.IGNORECASE), re.compile(c, re.IGNORECASE)) for o, c in _THINKING)
_ANY_CLOSING = re.compile("|".join(c for _, c in _THINKING), re.IGNORECASE)
_ANY_TAG = re.compile("|".join(tag for pair in _THINKING for tag in pair), re.IGNORECASE)
_FENCE = re.compile(r"\A(`{3,}|~{3,})[ \t]*[\w+-]*\s*(.*?)\s*\1\Z", re.DOTALL)
_DECLINES = re.compile(
    r"\A\W*(i[’']?m sorry|i am sorry|sorry\b|i can[’']?t|i can ?not|i am (not able|unable)|i[’']?m (not able|unable)"
    r"|i won[’']?t|i must decline|as an ai\b"
    r"|抱歉|对不起|很抱歉|我(无法|不能|没办法)|作为(一个|一名)?(ai|人工智能|语言模型))",
    re.IGNORECASE,
)
_MAX_DETAIL = 80
_MAX_INT_DIGITS = 300
_MAX_SCANS = 50


def answer_text(reply: ChatReply) -> str:
    """The reply's text, complete and not blank; refuses by cause, the finish reason before the content."""
    if reply.finish_reason == "length":
        _refuse_hopeless(reply)
        raise ReplyRefused(Cause.CUT_OFF, "finish_reason = length")
    return partial_text(reply)


def partial_text(reply: ChatReply) -> str:
    """As `answer_text`, for readers that can use the beginning of a cut-off reply."""
    _refuse_hopeless(reply)
    if reply.content is None or not reply.content.strip("\ufeff \t\r\n\v\f\u3000\xa0"):
        cut = reply.finish_reason == "length"
        raise ReplyRefused(Cause.CUT_OFF if cut else Cause.EMPTY, "no text in the reply")
    return reply.content


def _refuse_hopeless(reply: ChatReply) -> None:
    if reply.error is not None:
        raise ReplyRefused(Cause.ENDPOINT_ERROR, f"{reply.error.kind}: {reply.error.message}")
    if reply.finish_reason == "content_filter":
        raise ReplyRefused(Cause.FILTERED, "finish_reason = content_filter")
    if reply.refusal or reply.finish_reason == "refusal":
        raise ReplyRefused(Cause.REFUSED, shown(reply.refusal or "finish_reason = refusal"))


def json_answer(reply: ChatReply) -> JsonAnswer:
    """The one JSON value that the reply consists of."""
    return read_json(answer_text(reply))


def json_object(reply: ChatReply) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The one JSON object that the reply consists of, and the flags."""
    answer = json_answer(reply)
    if not isinstance(answer.value, dict):
        raise ReplyRefused(Cause.NOT_JSON, f"a JSON object was asked for, the reply is {shown(answer.value)}")
    return answer.value, answer.flags


def read_json(text: str) -> JsonAnswer:
    """`text` as one JSON value: as it stands first, then without what may surround an answer."""
    try:
        return JsonAnswer(strict_loads(text.strip()))
    except ValueError:
        bare, flags = unwrap(text)
    try:
        return JsonAnswer(strict_loads(bare), flags)
    except ValueError as error:
        _refuse_text(bare, error)


def unwrap(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` without byte order mark, leading thinking and a fence around the whole; flags name what was there."""
    flags = []
    bare = text.strip()
    if bare.startswith("\ufeff"):
        bare, flags = bare.lstrip("\ufeff").strip(), ["bom"]
    thoughtless = without_thinking(bare).strip()
    if thoughtless != bare:
        bare, flags = thoughtless, [*flags, "thinking"]
    if fenced := _FENCE.match(bare):
        bare, flags = fenced.group(2).strip(), [*flags, "fence"]
    return bare, tuple(flags)


def without_thinking(text: str) -> str:
    """What follows the thinking at the start of `text`; nothing where the thinking is never closed.

    A closing tag without its opening counts too: many chat templates put the opening into the prompt.
    """
    opened = False
    while True:
        for opening, closing in _OPENINGS:
            if begin := opening.match(text):
                end = closing.search(text, begin.end())
                text, opened = (text[end.end() :] if end else ""), True
                break
        else:
            lone = None if opened else _ANY_CLOSING.search(text)
            return text[lone.end() :] if lone else text


def shows_thinking(text: str) -> bool:
    """Whether a tag that opens or closes thinking stands anywhere in `text`."""
    return _ANY_TAG.search(text) is not None


def declines(text: str) -> bool:
    """Whether `text` begins as refusals do."""
    return _DECLINES.match(text) is not None


def strict_loads(text: str) -> Any:
    """JSON as the standard has it: no NaN or Infinity, no doubled keys, no lone surrogates.

    Raises `ValueError` for what is no JSON, `ReplyRefused` where the cause is a more telling one.
    """
    try:
        value = _DECODER.decode(text)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ReplyRefused(Cause.NOT_JSON, "half of a surrogate pair is no character") from None
    return value


def _no_constant(name: str) -> NoReturn:
    raise ReplyRefused(Cause.NOT_A_NUMBER, f"{name} is no JSON number")


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else float(digits)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        doubled = next(key for key in keys if keys.count(key) > 1)
        raise ReplyRefused(Cause.AMBIGUOUS, f"key {shown(doubled)} stands twice")
    return found


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=_whole_number, object_pairs_hook=_unique_keys)
_LOOSE = json.JSONDecoder()


def _refuse_text(text: str, error: ValueError) -> NoReturn:
    if not text:
        raise ReplyRefused(Cause.EMPTY, "nothing after the thinking")
    if _several_objects(text):
        raise ReplyRefused(Cause.AMBIGUOUS, "more than one JSON object in the reply")
    if "{" not in text and declines(text):
        raise ReplyRefused(Cause.REFUSED, shown(text))
    raise ReplyRefused(Cause.NOT_JSON, shown(str(error)))


def _several_objects(text: str) -> bool:
    found, at = 0, text.find("{")
    for _ in range(_MAX_SCANS):
        if at < 0 or found > 1:
            break
        try:
            _, at = _LOOSE.raw_decode(text, at)
            found += 1
        except (ValueError, RecursionError):
            at += 1
        at = text.find("{", at)
    return found > 1


def need(fields: dict[str, Any], key: str) -> Any:
    """The value of a required key."""
    if key not in fields:
        raise ReplyRefused(Cause.MISSING_KEY, f"{key} is absent")
    return fields[key]


def need_text(fields: dict[str, Any], key: str) -> str:
    """A required text: absent, empty, blank or no text at all are one cause."""
    value = need(fields, key)
    if not isinstance(value, str) or not value.strip():
        raise ReplyRefused(Cause.MISSING_KEY, f"{key} = {shown(value)}, a text is required")
    return value


def need_number(fields: dict[str, Any], key: str, low: float, high: float) -> float:
    """A required number in [low, high]. Booleans and text are no numbers; nothing is clamped."""
    value = need(fields, key)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ReplyRefused(Cause.NOT_A_NUMBER, f"{key} = {shown(value)}")
    if not low <= value <= high:
        raise ReplyRefused(Cause.OUT_OF_RANGE, f"{key} = {shown(value)}, outside [{low:g}, {high:g}]")
    return float(value)


def shown(value: object) -> str:
    """`value` for a one-line message: JSON where it can be, ASCII controls escaped, cut at 80 characters."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= _MAX_DETAIL else line[:_MAX_DETAIL] + "..."
