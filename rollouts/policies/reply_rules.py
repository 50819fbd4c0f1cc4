"""The written rules by which a model's reply becomes one of the options, or is out of schema for one cause.

Pure. In this order; the rule that fired is named in the row:

1. `exact`: the reply is, character for character, what was asked for.
2. A byte order mark, thinking before the answer and a code fence around all of it are taken off; each is named after
   the rule (`bare+fence`). Thinking that never ends, or that stands anywhere else, is `thinking_leaked`.
3. `json`: the reply is one JSON object whose `action` is an option.
4. `labelled`: the reply says `Action: X` (or answer, choice, decision; numbered or not) once, and X is an option; what
   stands before the label and on later lines is prose, and is never looked at again.
5. `bare`: the reply is an option and nothing else.

X is an option where the two are equal after quotes, emphasis and punctuation around X are taken off, compatibility
forms are replaced (NFKC: fullwidth letters are letters, a Cyrillic А is no A), case is ignored and `_`, `-` and blanks
are the same. There are no synonyms, and an option inside a sentence is none. A reply that names actions more than
once, the same or different ones, in words or as a JSON list, is `several`: one decision is one action.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from rollouts.calls.chat_records import ChatReply
from rollouts.calls.replies import Cause, ReplyRefused, declines, read_json, shown, shows_thinking, unwrap
from rollouts.metrics import EXACT

Wanted = Literal["letters", "json", "plain"]
ACTION = "action"
_AROUND = " \t\r\n\"'`*_~#.!?,;:()[]{}<>“”‘’«»"
_LABEL = re.compile(r"(?<!\w)(?:action|answer|choice|decision)[*_`]*\s*#?\s*\d*\s*[*_`]*\s*[:=]\s*", re.IGNORECASE)


class SchemaError(StrEnum):
    """Why a reply is no answer: what `schema_error` says of a policy that asks a model."""

    EMPTY = "empty"
    REFUSED = "refused"
    CUT_OFF = "cut_off"
    NOT_AN_OPTION = "not_an_option"
    SEVERAL = "several"
    THINKING = "thinking_leaked"
    TIMEOUT = "timeout"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class Reading:
    """An option by a rule, or the cause why there is none with one line of detail."""

    choice: str | None
    rule: str | None = None
    cause: SchemaError | None = None
    detail: str | None = None


def read_choice(reply: ChatReply, options: Sequence[str], wanted: Wanted) -> Reading:
    """What `reply` (one without `error`) chooses, where it was to be a JSON object or an option's plain name."""
    cause = unusable(reply)
    if cause is not None:
        return Reading(None, cause=cause, detail=shown(reply.refusal or f"finish_reason = {reply.finish_reason}"))
    text = reply.content or ""
    exact = _exact(text, options, wanted)
    if exact is not None:
        return Reading(exact, EXACT)
    bare, flags = unwrap(text)
    if not bare or shows_thinking(bare):
        return Reading(None, cause=SchemaError.THINKING, detail=shown(text))
    found = _by_json(bare, options) if bare[0] in "{[" else _by_words(bare, options)
    return found if found.rule is None else Reading(found.choice, "+".join((found.rule, *flags)))


def unusable(reply: ChatReply, short: bool = False) -> SchemaError | None:
    """Why there is nothing to read in `reply`. Where it was to be `short`, being cut off is no fault of a text."""
    if reply.refusal or reply.finish_reason in ("content_filter", "refusal"):
        return SchemaError.REFUSED
    blank = reply.content is None or not reply.content.strip("\ufeff \t\r\n\v\f\u3000\xa0")
    if reply.finish_reason == "length" and (blank or not short):
        return SchemaError.CUT_OFF
    return SchemaError.EMPTY if blank else None


def fold(text: str) -> str:
    """`text` as options are compared: NFKC, case ignored, runs of `_`, `-` and blanks as one blank."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"[\s_-]+", " ", plain).strip()


def _exact(text: str, options: Sequence[str], wanted: Wanted) -> str | None:
    if wanted == "plain":
        return text if text in options else None
    try:
        value = read_json(text)
    except ReplyRefused:
        return None
    named = [option for option in options if value.value == {ACTION: option}]
    return named[0] if named and not value.flags else None


def _by_json(text: str, options: Sequence[str]) -> Reading:
    try:
        value = read_json(text).value
    except ReplyRefused as refused:
        cause = SchemaError.SEVERAL if refused.cause is Cause.AMBIGUOUS else SchemaError.NOT_AN_OPTION
        return Reading(None, cause=cause, detail=shown(text))
    named = value.get(ACTION) if isinstance(value, dict) else value
    if isinstance(value, dict) and isinstance(named, str):
        return _whole(named, options, "json")
    several = isinstance(named, list) and len(named) > 1
    return _none_of(SchemaError.SEVERAL if several else SchemaError.NOT_AN_OPTION, text)


def _by_words(text: str, options: Sequence[str]) -> Reading:
    plain = unicodedata.normalize("NFKC", text)
    labels = list(_LABEL.finditer(plain))
    if len(labels) > 1:
        return _none_of(SchemaError.SEVERAL, text)
    if labels:
        value, _, _ = plain[labels[0].end() :].partition("\n")
        return _whole(value, options, "labelled")
    found = _whole(plain, options, "bare")
    refuses = found.cause is SchemaError.NOT_AN_OPTION and declines(text) and not _mentions(plain, options)
    return _none_of(SchemaError.REFUSED, text) if refuses else found


def _whole(text: str, options: Sequence[str], rule: str) -> Reading:
    """The option that `text` is, not one that it holds."""
    wanted = fold(text.strip(_AROUND))
    named = [option for option in options if fold(option) == wanted]
    if len(named) == 1:
        return Reading(named[0], rule)
    several = _mentions(text, options) > 1
    return _none_of(SchemaError.SEVERAL if several else SchemaError.NOT_AN_OPTION, text)


def _mentions(text: str, options: Sequence[str]) -> int:
    """How often options are named in `text`, as whole words."""
    names = "|".join(re.escape(fold(option)) for option in sorted(options, key=len, reverse=True))
    return len(re.findall(rf"(?<!\w)(?:{names})(?!\w)", fold(text)))


def _none_of(cause: SchemaError, text: str) -> Reading:
    return Reading(None, cause=cause, detail=shown(text))
