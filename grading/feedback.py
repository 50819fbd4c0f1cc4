"""What people said after an episode: rows, JSON lines, the block a grader reads, and a score without a model.

One row: {"episode_id", "channel", "polarity", "magnitude", "text", "time"}. No model and no storage is involved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from grading.grade import Grade
from grading.text import cut, quote
from rollouts.calls.replies import Cause, ReplyRefused, shown, strict_loads
from rollouts.errors import UsageError

Channel = Literal["explicit", "implicit"]
Polarity = Literal["positive", "neutral", "negative"]
SIGNS: dict[str, int] = {"positive": 1, "neutral": 0, "negative": -1}
KEYS = ("episode_id", "channel", "polarity", "magnitude", "text", "time")
MAX_ROWS = 8
MAX_TEXT = 800


@dataclass(frozen=True, slots=True)
class FeedbackRow:
    """One piece of feedback. `magnitude` in [0, 1]; `time` has a time zone.

    Not `dated`: nobody said when, and `time` is when it was received.
    """

    episode_id: str
    channel: Channel
    polarity: Polarity
    magnitude: float
    text: str
    time: datetime
    dated: bool = field(default=True, compare=False)


def parse_feedback(text: str, received_at: datetime) -> tuple[FeedbackRow, ...]:
    """JSON lines; blank lines are skipped. Raises `UsageError`, one line that names the line, key and value.

    Where a row leaves them out, magnitude is 1, the text empty and the time `received_at`.
    """
    rows = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            try:
                rows.append(_row(line, received_at))
            except ValueError as error:
                raise UsageError(f"feedback line {number}: {error}") from None
    return tuple(rows)


def _row(line: str, received_at: datetime) -> FeedbackRow:
    fields = _object(line)
    return FeedbackRow(
        episode_id=_text(fields, "episode_id", required=True),
        channel=_choice(fields, "channel", get_args(Channel)),
        polarity=_choice(fields, "polarity", get_args(Polarity)),
        magnitude=_magnitude(fields.get("magnitude", 1.0)),
        text=_text(fields, "text", required=False),
        time=_time(fields["time"]) if "time" in fields else received_at,
        dated="time" in fields,
    )


def _object(line: str) -> dict[str, Any]:
    try:
        fields = strict_loads(line.strip())
    except ReplyRefused as error:
        raise ValueError(error.detail) from None
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise ValueError(f"{shown(fields)} is not an object")
    if unknown := sorted(set(fields) - set(KEYS)):
        raise ValueError(f"unknown key {shown(unknown[0])}, choose from: {', '.join(KEYS)}")
    return fields


def _text(fields: dict[str, Any], key: str, *, required: bool) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str) or (required and not value.strip()):
        raise ValueError(f"{key} is {shown(fields.get(key))}, a text is required")
    return value


def _choice(fields: dict[str, Any], key: str, choices: tuple[Any, ...]) -> Any:
    value = fields.get(key)
    if value not in choices:
        raise ValueError(f"{key} is {shown(value)}, not one of {' | '.join(choices)}")
    return value


def _magnitude(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise ValueError(f"magnitude is {shown(value)}, not a number from 0 to 1")
    return float(value)


def _time(value: Any) -> datetime:
    try:
        when = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"time is {shown(value)}, not an ISO-8601 time such as 2026-01-31T12:00:00Z") from None
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def newest(rows: Sequence[FeedbackRow]) -> tuple[FeedbackRow, ...]:
    """The newest 8 rows, oldest first; of equal times the later row counts as newer."""
    return tuple(sorted(rows, key=lambda row: row.time)[-MAX_ROWS:])


def feedback_block(rows: Sequence[FeedbackRow], none: str) -> str:
    """The newest rows, one line each, texts quoted and cut at 800 characters; `none` if there are no rows."""
    return "\n".join(_line(row) for row in newest(rows)) or none


def _line(row: FeedbackRow) -> str:
    words = quote(cut(row.text, MAX_TEXT)) if row.text.strip() else "(no words)"
    return f"- {row.time.isoformat()} {row.channel}, {row.polarity}, magnitude {row.magnitude:g}: {words}"


def satisfaction(rows: Sequence[FeedbackRow]) -> float | None:
    """Satisfaction in [-1, 1] without a model; None where nobody said anything.

    The mean of the signed polarity of the explicit rows, weighted by magnitude (0 when all magnitudes are 0); if no
    row is explicit, the same of the first row.
    """
    counted = [row for row in rows if row.channel == "explicit"] or list(rows[:1])
    if not counted:
        return None
    total = math.fsum(row.magnitude for row in counted)
    signed = math.fsum(row.magnitude * SIGNS[row.polarity] for row in counted)
    return signed / total if total else 0.0


def explicit_grade(rows: Sequence[FeedbackRow]) -> Grade:
    """A grade from people's feedback alone (source `explicit`): satisfaction, with goal and process absent."""
    value = satisfaction(rows)
    if value is None:
        return Grade("explicit", "ungraded", cause=Cause.NO_FEEDBACK, detail="nobody gave feedback")
    return Grade("explicit", "graded", user_satisfaction=value)
