"""What of some feedback is new to a run, by hand: pure, without a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from grading.feedback import FeedbackRow
from grading.said import fresh_rows

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DATED = FeedbackRow("a", "explicit", "negative", 0.5, "太慢了", NOON)
UNDATED = replace(DATED, dated=False)


def at(hours: int, row: FeedbackRow) -> FeedbackRow:
    return replace(row, time=NOON + timedelta(hours=hours))


def test_a_dated_row_is_new_at_another_time() -> None:
    assert fresh_rows([DATED, at(1, DATED)], [DATED]) == [at(1, DATED)]


def test_a_row_that_nobody_dated_is_new_only_where_nobody_said_it() -> None:
    """Its time is that of its file, which a copy changes."""
    assert fresh_rows([UNDATED], []) == [UNDATED]
    assert fresh_rows([at(1, UNDATED)], [DATED]) == []
    others = [replace(UNDATED, text="好"), replace(UNDATED, episode_id="b"), replace(UNDATED, magnitude=1.0)]
    assert fresh_rows([at(1, row) for row in others], [DATED]) == [at(1, row) for row in others]


def test_each_row_of_one_file_is_taken_once() -> None:
    assert fresh_rows([DATED, DATED, at(2, UNDATED), at(2, UNDATED)], []) == [DATED]
    assert fresh_rows([UNDATED, UNDATED], []) == [UNDATED]
