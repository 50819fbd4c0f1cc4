"""Which grades are owed, by hand: pure, without a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from grading.feedback import FeedbackRow
from grading.grader import GraderSettings
from grading.order import GradingOrder
from grading.owed import Question, Wanted, degraded_spans, replaced, scored_episodes, uncredited, unsummarized
from grading.said import said_sha256
from grading.summarizer import SummarizerSettings
from rollouts.calls.endpoint import Endpoint

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SAID = (FeedbackRow("a", "explicit", "positive", 1.0, "谢谢", NOON),)
MORE = (*SAID, FeedbackRow("a", "explicit", "negative", 0.5, "", NOON))


def row(grading: int, repeat: int = 0, said: str | None = None, status: str = "graded", key: str = "a") -> Any:
    names = {"episode_id": key, "grading": grading, "repeat": repeat, "status": status}
    return {**names, "feedback_sha256": said, "graded_at": NOON, "cut": "{}"}


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


def test_credit_follows_the_first_repeat_alone() -> None:
    """The others measure the grader: where the first has no score there is no credit, whatever they say."""
    assert uncredited(["a"], [row(0, status="ungraded"), row(0, 1)], [], None) == []


def entry(key: str, span: int, status: str = "ok", hours: int = 0) -> Any:
    return {"episode_id": key, "span": span, "status": status, "summarized_at": NOON + timedelta(hours=hours)}


ENTRIES = [entry("a", 0), entry("a", 1, "degraded"), entry("a", 2, "degraded"), entry("b", 0)]
MENDED = [*ENTRIES, entry("a", 1, hours=2), entry("a", 2, "degraded", hours=3)]
HOUR = NOON + timedelta(hours=1)


def test_an_episode_without_entries_owes_them() -> None:
    assert unsummarized(["a", "b", "c"], ENTRIES) == ["c"]
    assert scored_episodes(ENTRIES) == {"b"}


def test_degraded_entries_are_owed_again_only_when_asked_for_and_once() -> None:
    assert degraded_spans(ENTRIES, None) == {}
    assert degraded_spans(ENTRIES, NOON) == {}
    assert degraded_spans(ENTRIES, HOUR) == {"a": [1, 2]}
    assert unsummarized(["a", "b", "c"], ENTRIES, HOUR) == ["a", "c"]
    assert degraded_spans(MENDED, HOUR) == {}
    assert degraded_spans(MENDED, NOON + timedelta(hours=4)) == {"a": [2]}


def test_the_later_entry_counts() -> None:
    assert scored_episodes(MENDED) == {"b"}
    assert scored_episodes([*MENDED, entry("a", 2, hours=4)]) == {"a", "b"}


def reader(**changes: Any) -> GradingOrder:
    scribe = SummarizerSettings("scribe")
    judge = GraderSettings("judge", reads="summaries", summarizer_id=scribe.summarizer_id)
    endpoint = Endpoint("http://127.0.0.1:9/v1")
    return GradingOrder("run", "/nowhere", grader=judge, summarizer=scribe, endpoint=endpoint, **changes)


def test_entries_are_replaced_when_a_scored_one_takes_the_place_of_a_degraded_one() -> None:
    assert replaced(reader(), ENTRIES) == {}
    assert replaced(reader(), MENDED) == {"a": NOON + timedelta(hours=2)}
    assert replaced(reader(), [*MENDED, entry("a", 2, hours=5)]) == {"a": NOON + timedelta(hours=5)}


def test_what_is_still_to_be_asked_again_counts_as_replaced() -> None:
    (last,) = replaced(reader(retry_degraded_before=HOUR), ENTRIES).values()
    assert last > datetime(9999, 1, 1, tzinfo=UTC)


def test_a_grade_that_read_entries_which_were_replaced_is_given_anew() -> None:
    since = {"a": HOUR}
    read = {**row(0), "cut": '{"turns_summarized":3}'}

    def asked(*rows: Any) -> list[tuple[int, int]]:
        return [(q.grading, q.repeat) for q in Wanted(repeats=2).questions(["a"], rows, since)]

    assert asked(read, {**read, "repeat": 1}) == [(1, 0), (1, 1)]
    assert asked(read, {**read, "graded_at": HOUR, "grading": 1}) == [(1, 1)]
    assert Wanted().questions(["a"], [read], {"b": HOUR}) == []


@pytest.mark.parametrize(("cut", "again"), [("{}", False), (None, False), ('{"lines_shortened":2}', False)])
def test_a_grade_of_an_episode_that_fitted_as_it_was_read_no_entries_and_stays(cut: str | None, again: bool) -> None:
    assert bool(Wanted().questions(["a"], [{**row(0), "cut": cut}], {"a": HOUR})) is again
