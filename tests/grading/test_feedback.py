from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from grading.feedback import (
    Channel,
    FeedbackRow,
    Polarity,
    explicit_grade,
    feedback_block,
    newest,
    parse_feedback,
    satisfaction,
)
from rollouts.calls.replies import Cause
from rollouts.errors import UsageError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOOD = {
    "episode_id": "e",
    "channel": "explicit",
    "polarity": "negative",
    "magnitude": 0.8,
    "text": "太慢了",
    "time": "2026-02-03T04:05:06Z",
}


def row(
    polarity: Polarity = "positive", magnitude: float = 1.0, channel: Channel = "explicit", day: int = 0
) -> FeedbackRow:
    return FeedbackRow("e", channel, polarity, magnitude, f"day {day}", NOW + timedelta(days=day))


def test_json_lines_are_read() -> None:
    text = "\ufeff" + json.dumps(GOOD, ensure_ascii=False) + "\r\n\n" + json.dumps({**GOOD, "episode_id": "f"})
    first, second = parse_feedback(text, NOW)
    when = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert first == FeedbackRow("e", "explicit", "negative", 0.8, "太慢了", when)
    assert second.episode_id == "f"


def test_what_may_be_left_out() -> None:
    text = '{"episode_id": "e", "channel": "implicit", "polarity": "neutral"}'
    (found,) = parse_feedback(text, NOW)
    assert found == FeedbackRow("e", "implicit", "neutral", 1.0, "", NOW)
    assert not found.dated


@pytest.mark.parametrize(
    ("time", "utc"),
    [("2026-01-01T08:00:00+08:00", "2026-01-01T00:00:00+00:00"), ("2026-01-01", "2026-01-01T00:00:00+00:00")],
)
def test_times_are_kept_in_utc(time: str, utc: str) -> None:
    (found,) = parse_feedback(json.dumps({**GOOD, "time": time}), NOW)
    assert found.time.isoformat() == utc


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"polarity": "good"}, "polarity is good, not one of positive | neutral | negative"),
        ({"channel": None}, "channel is null, not one of explicit | implicit"),
        ({"polarity": ["positive"]}, 'polarity is ["positive"], not one of'),
        ({"magnitude": 1.5}, "magnitude is 1.5, not a number from 0 to 1"),
        ({"magnitude": True}, "magnitude is true"),
        ({"magnitude": "1"}, "magnitude is 1"),
        ({"magnitude": float("nan")}, "NaN is no JSON number"),
        ({"episode_id": " "}, "episode_id is"),
        ({"text": 3}, "text is 3"),
        ({"time": "yesterday"}, "time is yesterday, not an ISO-8601 time"),
        ({"time": 5}, "time is 5"),
        ({"stars": 5}, "unknown key stars, choose from: episode_id"),
    ],
)
def test_a_bad_row_is_one_line_with_its_number(changes: dict[str, Any], told: str) -> None:
    text = json.dumps(GOOD) + "\n" + json.dumps({**GOOD, **changes})
    with pytest.raises(UsageError) as caught:
        parse_feedback(text, NOW)
    message = str(caught.value)
    assert message.startswith("feedback line 2: ")
    assert told in message
    assert "\n" not in message


@pytest.mark.parametrize("line", ["{", "[]", "nonsense", '{"episode_id": "a", "episode_id": "b"}'])
def test_a_line_that_is_no_row(line: str) -> None:
    with pytest.raises(UsageError, match=r"^feedback line 1: "):
        parse_feedback(line, NOW)


def test_the_newest_8_oldest_first() -> None:
    rows = [row(day=day) for day in (5, 1, 9, 3, 7, 2, 8, 4, 6, 0)]
    assert [r.text for r in newest(rows)] == [f"day {day}" for day in range(2, 10)]


def test_the_block_quotes_cuts_and_marks_what_is_empty() -> None:
    said = FeedbackRow("e", "explicit", "negative", 0.5, "慢" * 801 + '"\n', NOW)
    silent = FeedbackRow("e", "implicit", "neutral", 1.0, " ", NOW)
    assert feedback_block([said, silent], "none").split("\n") == [
        f'- 2026-01-01T00:00:00+00:00 explicit, negative, magnitude 0.5: "{"慢" * 800}..."',
        "- 2026-01-01T00:00:00+00:00 implicit, neutral, magnitude 1: (no words)",
    ]
    assert feedback_block([], "(none)") == "(none)"


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        ([], None),
        ([row("positive", 0.2)], 1.0),
        ([row("positive", 0.5), row("negative", 1.0)], -1 / 3),
        ([row("positive", 0.6), row("neutral", 0.2)], 0.75),
        ([row("negative", 1.0, "implicit"), row("positive", 1.0)], 1.0),
        ([row("negative", 0.3, "implicit"), row("positive", 1.0, "implicit")], -1.0),
        ([row("negative", 0.0)], 0.0),
    ],
)
def test_satisfaction_without_a_model(rows: list[FeedbackRow], value: float | None) -> None:
    assert satisfaction(rows) == (None if value is None else pytest.approx(value))


def test_a_grade_from_people_alone() -> None:
    grade = explicit_grade([row("positive"), row("negative", 0.5)])
    assert (grade.source, grade.status) == ("explicit", "graded")
    assert (grade.goal_achievement, grade.process_quality) == (None, None)
    assert grade.user_satisfaction == pytest.approx(1 / 3)
    assert explicit_grade([]).cause is Cause.NO_FEEDBACK
