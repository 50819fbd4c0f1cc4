"""Which grades are owed, by hand: pure, without a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from grading.feedback import FeedbackRow
from grading.owed import Question, Wanted, scored_episodes, uncredited, unsummarized
from grading.said import said_sha256

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SAID = (FeedbackRow("a", "explicit", "positive", 1.0, "谢谢", NOON),)
MORE = (*SAID, FeedbackRow("a", "explicit", "negative", 0.5, "", NOON))


def row(grading: int, repeat: int = 0, said: str | None = None, status: str = "graded", key: str = "a") -> Any:
    names = {"episode_id": key, "grading": grading, "repeat": repeat, "status": status}
    return {**names, "feedback_sha256": said, "graded_at": NOON}


def owed(wanted: Wanted, *rows: Any) -> list[tuple[int, int]]:
    return [(q.grading, q.repeat) for q in wanted.questions(["a"], rows)]


def test_each_repeat_once() -> None:
    assert owed(Wanted(repeats=2)) == [(0, 0), (0, 1)]
    assert owed(Wanted(repeats=2), row(0)) == [(0, 1)]
    assert owed(Wanted(repeats=1), row(0), row(0, 1)) == []


def test_episodes_do_not_answer_for_each_other() -> None:
    assert Wanted().questions(["a", "b"], [row(0)]) == [Question("b", 0, 0)]


def test_an_ungraded_episode_is_not_owed_by_itself() -> None:
    ungraded = row(0, status="ungraded")
    assert owed(Wanted(), ungraded) == []
    assert owed(Wanted(retry_ungraded_before=NOON), ungraded) == []
    assert owed(Wanted(retry_ungraded_before=NOON + timedelta(seconds=1)), ungraded) == [(1, 0)]


def test_a_retry_is_for_the_repeats_without_a_score_and_joins_a_grading_under_way() -> None:
    later = Wanted(repeats=3, retry_ungraded_before=NOON + timedelta(seconds=1))
    rows = (row(0), row(0, 1, status="ungraded"), row(0, 2, status="ungraded"))
    assert owed(later, *rows) == [(1, 1), (1, 2)]
    assert owed(later, *rows, {**row(1, 1), "graded_at": NOON + timedelta(hours=1)}) == [(1, 2)]


def test_feedback_starts_one_grading_for_all_repeats() -> None:
    wanted = Wanted(repeats=2, said={"a": SAID})
    told = said_sha256(SAID)
    assert owed(wanted) == [(0, 0), (0, 1)]
    assert owed(wanted, row(0), row(0, 1)) == [(1, 0), (1, 1)]
    assert owed(wanted, row(0), row(0, 1), row(1, 0, told)) == [(1, 1)]
    assert owed(wanted, row(0, 0, told), row(0, 1, told)) == []


def test_more_feedback_while_a_grading_is_under_way_starts_another() -> None:
    wanted = Wanted(repeats=2, said={"a": MORE})
    assert owed(wanted, row(0), row(0, 1), row(1, 0, said_sha256(SAID))) == [(2, 0), (2, 1)]


def test_what_was_told_does_not_depend_on_the_order_of_rows() -> None:
    assert said_sha256(MORE) == said_sha256(MORE[::-1])
    assert said_sha256(MORE) != said_sha256(SAID)
    assert said_sha256(()) is None


def test_credit_is_owed_for_the_newest_grade_alone() -> None:
    assert uncredited(["a"], [row(0)], [], None) == ["a"]
    assert uncredited(["a"], [row(0)], [{"episode_id": "a", "grading": 0}], None) == []
    assert uncredited(["a"], [row(0), row(1)], [{"episode_id": "a", "grading": 0}], None) == ["a"]
    assert uncredited(["a"], [row(0), row(1, status="ungraded")], [], None) == []
    assert uncredited(["a"], [row(0, 1)], [], None) == []
    assert uncredited(["a"], [row(0)], [], {"b"}) == []


def test_entries() -> None:
    rows = [{"episode_id": key, "status": status} for key, status in (("a", "ok"), ("a", "degraded"), ("b", "ok"))]
    assert scored_episodes(rows) == {"b"}
    assert unsummarized(["a", "b", "c"], rows) == ["c"]
