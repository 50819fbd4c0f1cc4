from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from grading.credit import CreditSettings, parse_rule
from grading.feedback import FeedbackRow
from grading.grade import Weights, r_human
from grading.owed import Owed, find_owed
from grading.said import add_feedback
from grading.side_rows import grade_of, newest_entries, newest_grades
from grading.task_summary import Caps
from grading.work import GradingWorker
from rollouts.calls.chat_records import CallError, ChatReply, ChatRequest
from rollouts.calls.limits import Spending
from rollouts.errors import TryVoid, UsageError
from rollouts.records import SideCounts
from tests.judged_runs import GRADER, NOON, SUMMARIZER, Desk, Model, answer, episode_id, make_order, played_run

LATER = datetime(2031, 1, 1, tzinfo=UTC)


def said(seed: int, polarity: Any = "negative", text: str = "slow") -> FeedbackRow:
    return FeedbackRow(episode_id(seed), "explicit", polarity, 1.0, text, NOON)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk.at(played_run(tmp_path))


def test_grades_of_a_model_are_committed_with_their_calls(desk: Desk, tmp_path: Path) -> None:
    order, model = make_order(tmp_path, grader=GRADER), Model()
    reports = desk.grade(order, model)
    assert sum((report.counts for report in reports), start=SideCounts()) == SideCounts(
        graded=4, calls=4, requests=4, tokens_in=400, tokens_out=40, unpriced=4
    )
    grades, calls = desk.rows("grades", order.grader_id), desk.rows("calls", order.grader_id)
    assert [row["episode_id"] for row in grades] == [episode_id(seed) for seed in (1, 2, 3, 4)]
    assert {row["source"] for row in grades} == {"llm"}
    assert [row["call_id"] for row in grades] == [row["call_id"] for row in calls]
    assert {(row["model"], row["requested_model"], row["status"]) for row in calls} == {
        ("judge-model-1", "judge-model", "validated")
    }
    assert r_human(grade_of(grades[0])) == pytest.approx(0.45 * 0.4 + 0.30 * 0.1)
    assert desk.side.spent() == Spending(calls=4, tokens=440)


def test_nothing_is_owed_after_it_and_nothing_is_asked_again(desk: Desk, tmp_path: Path) -> None:
    order, model = make_order(tmp_path, grader=GRADER, credit=CreditSettings()), Model()
    before = find_owed(desk.run.folder, order, desk.units)
    assert (before.gradings, len(before.grades), before.credit) == (4, 2, ())
    desk.grade(order, model)
    assert find_owed(desk.run.folder, order, desk.units) == Owed()
    again = desk.grade(order, model)
    assert (len(model.requests), [report.shards for report in again]) == (4, [(), ()])


def test_a_spent_budget_keeps_what_is_done_and_the_next_start_asks_only_the_rest(desk: Desk, tmp_path: Path) -> None:
    order, model = make_order(tmp_path, grader=GRADER), Model(budget=3)
    reports = desk.grade(order, model)
    assert [report.complete for report in reports] == [True, False]
    assert reports[1].stop == ("budget", "the budget is used up")
    assert find_owed(desk.run.folder, order, desk.units).gradings == 1
    desk.leave()
    more = Model()
    desk = Desk.at(desk.run)
    desk.grade(order, more)
    assert len(more.requests) == 1
    assert sorted(row["episode_id"] for row in desk.rows("grades", order.grader_id)) == [
        episode_id(seed) for seed in (1, 2, 3, 4)
    ]
    names = [path.rpartition("/")[2] for path in desk.side.parts("grades", str(order.grader_id), desk.units[1])]
    assert names == ["part-0000001-0.parquet", "part-0000001-1.parquet"]


def test_a_cancelled_task_loses_no_reply(desk: Desk, tmp_path: Path) -> None:
    """The first of two replies is on file when the task is ended; the next task asks for the other one alone."""
    order = make_order(tmp_path, grader=GRADER)
    unit, worker = desk.units[0], GradingWorker(order)
    answered: list[str] = []

    class Hangs(Model):
        async def __call__(self, request: ChatRequest, /) -> ChatReply:
            if answered:
                await asyncio.sleep(60)
            answered.append(request.key())
            return await super().__call__(request)

    async def cut_short() -> None:
        task = asyncio.create_task(worker.grade_unit(unit, desk.attempt(), Hangs()))
        while not await asyncio.to_thread(desk.side.journal.read, str(order.grader_id), unit):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut_short())
    assert desk.rows("grades", order.grader_id) == []
    model = Model()
    report = desk.commit(asyncio.run(worker.grade_unit(unit, desk.attempt(), model)))
    assert (len(model.requests), report.counts.graded, report.counts.reused) == (1, 2, 1)
    assert answered[0] not in {request.key() for request in model.requests}
    assert desk.side.journal.left() == {}
    calls = desk.rows("calls", order.grader_id)
    assert (len(calls), len({row["call_id"] for row in calls}), sum(row["tries"] for row in calls)) == (3, 3, 2)
    assert {row["call_id"] for row in desk.rows("grades", order.grader_id)} <= {
        row["call_id"] for row in calls if row["reused_call_id"] is None
    }


def test_two_attempts_at_a_unit_count_once(desk: Desk, tmp_path: Path) -> None:
    order = make_order(tmp_path, grader=GRADER)
    worker, unit = GradingWorker(order), desk.units[0]
    first, second = (asyncio.run(worker.grade_unit(unit, desk.attempt(), Model())) for _ in range(2))
    desk.commit(second)
    with pytest.raises(TryVoid, match="has come in since"):
        desk.commit(first)
    assert len(desk.rows("grades", order.grader_id)) == 2


def test_a_refused_reply_is_asked_again_once_and_then_is_no_grade(desk: Desk, tmp_path: Path) -> None:
    order, model = make_order(tmp_path, grader=GRADER, credit=CreditSettings()), Model(lambda _: "I would say 0.7")
    reports = desk.grade(order, model)
    assert reports[0].counts == SideCounts(
        ungraded=(("not_json", 2),), calls=4, requests=4, tokens_in=400, tokens_out=40, unpriced=4
    )
    assert reports[0].failures == (("grading", "not_json"),) * 2
    grades, calls = desk.rows("grades", order.grader_id), desk.rows("calls", order.grader_id)
    assert {(row["status"], row["cause"], row["goal_achievement"], row["n_calls"]) for row in grades} == {
        ("ungraded", "not_json", None, 2)
    }
    assert {(row["status"], row["validated"]) for row in calls} == {("refused", False)}
    assert desk.rows("credit", order.credit_id) == []
    assert find_owed(desk.run.folder, order, desk.units) == Owed()


def test_ungraded_episodes_are_graded_again_when_asked_for_beside_the_old_rows(desk: Desk, tmp_path: Path) -> None:
    order = make_order(tmp_path, grader=GRADER)
    desk.grade(order, Model(down))
    assert {row["status"] for row in desk.rows("calls", order.grader_id)} == {"failed"}
    assert desk.side.spent().calls == 4 * 6
    retry, model = replace(order, retry_ungraded_before=LATER), Model()
    assert find_owed(desk.run.folder, retry, desk.units).gradings == 4
    desk.grade(retry, model)
    assert len(model.requests) == 4
    rows = desk.rows("grades", order.grader_id)
    assert sorted({(row["grading"], row["status"]) for row in rows}) == [(0, "ungraded"), (1, "graded")]
    assert {row["status"] for row in newest_grades(rows).values()} == {"graded"}
    before_all = replace(order, retry_ungraded_before=NOON.replace(year=2000))
    assert find_owed(desk.run.folder, before_all, desk.units) == Owed()


def test_late_feedback_starts_a_new_grading_of_its_episode_alone(desk: Desk, tmp_path: Path) -> None:
    order = make_order(tmp_path, grader=GRADER, credit=CreditSettings())
    desk.grade(order, Model())
    assert add_feedback(desk.run.folder, desk.lease, [said(2, text="太慢了")], desk.run.plan) == 1
    assert add_feedback(desk.run.folder, desk.lease, [said(2, text="太慢了")], desk.run.plan) == 0
    owed = find_owed(desk.run.folder, order, desk.units)
    assert (owed.gradings, owed.grades) == (1, (desk.units[0],))
    model = Model()
    desk.grade(order, model)
    assert [("太慢了" in r.messages[1].text, r.grading) for r in model.requests] == [(True, 1)]
    rows = [row for row in desk.rows("grades", order.grader_id) if row["episode_id"] == episode_id(2)]
    assert [(row["grading"], row["n_feedback"]) for row in rows] == [(0, 0), (1, 1)]
    credit = desk.rows("credit", order.credit_id)
    assert {row["grading"] for row in credit if row["episode_id"] == episode_id(2)} == {0, 1}
    assert {row["grading"] for row in credit if row["episode_id"] != episode_id(2)} == {0}
    assert find_owed(desk.run.folder, order, desk.units) == Owed()


def test_feedback_on_a_stranger_is_refused(desk: Desk) -> None:
    with pytest.raises(UsageError, match=r"judged\.rule\.oracle\.99\.0"):
        add_feedback(desk.run.folder, desk.lease, [said(99)], desk.run.plan)


def test_explicit_grades_are_of_satisfaction_alone(desk: Desk, tmp_path: Path) -> None:
    order = make_order(tmp_path, grader="explicit", credit=CreditSettings())
    add_feedback(desk.run.folder, desk.lease, [said(1, "positive"), said(3)], desk.run.plan)
    reports = desk.grade(order)
    assert sum((report.counts for report in reports), start=SideCounts()) == SideCounts(
        graded=2, ungraded=(("no_feedback", 2),), credited=2
    )
    last = {row["episode_id"]: row for row in desk.rows("credit", order.credit_id)}
    assert (last[episode_id(1)]["r"], last[episode_id(3)]["r"]) == (1.0, -1.0)
    assert last[episode_id(1)]["weight_goal"] is None
    assert {row["source"] for row in desk.rows("grades", order.grader_id)} == {"explicit"}


def test_repeats_are_asked_for_apart_and_only_the_first_gives_credit(desk: Desk, tmp_path: Path) -> None:
    order, model = make_order(tmp_path, grader=GRADER, repeats=3, credit=CreditSettings()), Model()
    desk.grade(replace(order, repeats=1), model)
    assert find_owed(desk.run.folder, order, desk.units).gradings == 8
    desk.grade(order, model)
    assert sorted(request.repeat for request in model.requests) == [0] * 4 + [1] * 4 + [2] * 4
    assert {row["repeat"] for row in desk.rows("credit", order.credit_id)} == {0}
    assert {row["grading"] for row in desk.rows("grades", order.grader_id)} == {0}


def test_credit_is_recomputed_without_a_call_under_other_weights(desk: Desk, tmp_path: Path) -> None:
    """A verdict of 0.4, 0.1, 0 is R = 0.21, and 0.4 where goal is all; the counting game has 5 decisions, no event."""
    order = make_order(tmp_path, grader=GRADER, credit=CreditSettings())
    desk.grade(order, Model())
    other = replace(order, weights=Weights(1.0, 0.0, 0.0), credit=CreditSettings(parse_rule("constant:0"), 0.5))
    assert order.grader_id == other.grader_id
    assert order.credit_id != other.credit_id
    assert find_owed(desk.run.folder, other, desk.units).credit == tuple(desk.units)
    desk.credit(other)
    first = [row for row in desk.rows("credit", other.credit_id) if row["episode_id"] == episode_id(1)]
    assert [row["value"] for row in first] == pytest.approx([0.025, 0.05, 0.1, 0.2, 0.4])
    assert {(row["r"], row["rule"], row["gamma"], row["weight_goal"]) for row in first} == {(0.4, "constant:0", 0.5, 1)}
    usual = [row for row in desk.rows("credit", order.credit_id) if row["episode_id"] == episode_id(1)]
    assert [row["value"] for row in usual] == pytest.approx([0.21 * 0.9**n for n in (4, 3, 2, 1, 0)])


def test_summaries_then_a_grader_that_reads_them_then_credit_by_score(desk: Desk, tmp_path: Path) -> None:
    """The oracle always goes down without an event: one span, one entry of score 5, so alpha = 0.5 throughout."""
    reads = replace(GRADER, reads="summaries", summarizer_id=SUMMARIZER.summarizer_id)
    credit = CreditSettings(parse_rule("summary"))
    order = make_order(tmp_path, grader=reads, summarizer=SUMMARIZER, credit=credit)
    with pytest.raises(TryVoid, match="has no summaries"):
        desk.grade(order, Model())
    assert find_owed(desk.run.folder, order, desk.units).summary_episodes == 4
    counts = sum((report.counts for report in desk.summarize(order, Model())), start=SideCounts())
    assert (counts.entries, counts.degraded, counts.calls) == (4, (), 4)
    rows = desk.rows("summaries", order.summarizer_id)
    assert [(r["tool_call_id"], r["span"], r["first_tick"], r["decisions"], r["score"]) for r in rows[:1]] == [
        (f"{episode_id(1)}:0", 0, 0, 5, 5.0)
    ]
    desk.grade(order, Model())
    values = [row["value"] for row in desk.rows("credit", order.credit_id) if row["episode_id"] == episode_id(1)]
    r = 0.21
    expected = [r]
    for _ in range(4):
        expected.insert(0, 0.5 * r + 0.5 * 0.9 * expected[0])
    assert values == pytest.approx(expected)
    assert find_owed(desk.run.folder, order, desk.units) == Owed()


def test_an_episode_with_a_degraded_entry_has_no_credit_by_score_and_is_not_owed(desk: Desk, tmp_path: Path) -> None:
    credit = CreditSettings(parse_rule("summary"))
    order = make_order(tmp_path, grader=GRADER, summarizer=SUMMARIZER, credit=credit)
    reports = desk.summarize(order, Model(lambda _request: "no"))
    assert reports[0].counts.degraded == (("not_json", 2),)
    assert reports[0].failures == (("summaries", "not_json"),) * 2
    desk.grade(order, Model())
    assert desk.rows("credit", order.credit_id) == []
    assert find_owed(desk.run.folder, order, desk.units) == Owed()


def down(_request: ChatRequest) -> ChatReply:
    return ChatReply(None, error=CallError("http_500", "gone"), tries=6)


def one_down(seed: int) -> Callable[[ChatRequest], str | ChatReply]:
    """The endpoint fails for what is asked about one episode."""
    return lambda request: down(request) if episode_id(seed) in request.messages[-1].text else answer(request)


def test_degraded_entries_are_asked_for_again_when_asked_for_beside_the_old_rows(desk: Desk, tmp_path: Path) -> None:
    """A transport failure is not the last word: credit by score follows as soon as the entries are there."""
    credit = CreditSettings(parse_rule("summary"))
    order = make_order(tmp_path, grader=GRADER, summarizer=SUMMARIZER, credit=credit)
    desk.summarize(order, Model(one_down(2)))
    desk.grade(order, Model())
    assert {row["cause"] for row in desk.rows("summaries", order.summarizer_id)} == {None, "endpoint_error"}
    assert find_owed(desk.run.folder, order, desk.units) == Owed()
    assert {row["episode_id"] for row in desk.rows("credit", order.credit_id)} == {episode_id(n) for n in (1, 3, 4)}
    before, retry, model = (
        desk.rows("summaries", order.summarizer_id),
        replace(order, retry_degraded_before=LATER),
        Model(),
    )
    owed = find_owed(desk.run.folder, retry, desk.units)
    assert (owed.summary_episodes, owed.gradings) == (1, 0)
    desk.summarize(retry, model)
    assert [episode_id(2) in request.messages[-1].text for request in model.requests] == [True]
    rows = desk.rows("summaries", order.summarizer_id)
    assert [row for row in rows if row in before] == before
    assert [(row["status"], row["span"]) for row in rows if row["episode_id"] == episode_id(2)] == [
        ("degraded", 0),
        ("ok", 0),
    ]
    desk.credit(order)
    assert {row["episode_id"] for row in desk.rows("credit", order.credit_id)} == {episode_id(n) for n in (1, 2, 3, 4)}
    assert {row["grading"] for row in desk.rows("grades", order.grader_id)} == {0}


def test_only_the_degraded_spans_are_asked_for_again_and_no_stored_reply_is(tmp_path: Path) -> None:
    """Random play has many spans, each a call here. What a retry was answered before its budget was spent stays."""
    desk = Desk.at(played_run(tmp_path, seeds=(1, 2), policy="random"))
    order = make_order(tmp_path, summarizer=replace(SUMMARIZER, batch=1))
    fails = cycle([False, True])
    desk.summarize(order, Model(lambda request: down(request) if next(fails) else answer(request)))
    rows = desk.rows("summaries", order.summarizer_id)
    degraded = [row for row in rows if row["status"] == "degraded"]
    assert 3 < len(degraded) < len(rows)
    retry = replace(order, retry_degraded_before=LATER)
    first = Model(budget=3)
    reports = desk.summarize(retry, first)
    assert (reports[0].complete, reports[0].stop) == (False, ("budget", "the budget is used up"))
    second = Model()
    desk.summarize(retry, second)
    assert len(first.requests) + len(second.requests) == len(degraded)
    assert {r.key() for r in first.requests}.isdisjoint(r.key() for r in second.requests)
    assert {row["status"] for row in newest_entries(desk.rows("summaries", order.summarizer_id)).values()} == {"ok"}


def test_a_grade_that_read_degraded_summaries_is_given_anew_beside_the_old_one(desk: Desk, tmp_path: Path) -> None:
    """The cap is so low that summaries are read; those of seed 2 were not to be had at first."""
    reads = replace(GRADER, reads="summaries", summarizer_id=SUMMARIZER.summarizer_id, caps=Caps(whole=300))
    order = make_order(tmp_path, grader=reads, summarizer=SUMMARIZER, credit=CreditSettings())
    desk.summarize(order, Model(one_down(2)))
    desk.grade(order, Model())
    retry = replace(order, retry_degraded_before=LATER)
    owed = find_owed(desk.run.folder, retry, desk.units)
    assert (owed.summary_episodes, owed.gradings, owed.grades) == (1, 1, owed.summaries)
    desk.summarize(retry, Model())
    model = Model()
    desk.grade(retry, model)
    assert [request.grading for request in model.requests] == [1]
    rows = [row for row in desk.rows("grades", order.grader_id) if row["episode_id"] == episode_id(2)]
    assert [row["grading"] for row in rows] == [0, 1]
    credit = [row["grading"] for row in desk.rows("credit", order.credit_id) if row["episode_id"] == episode_id(2)]
    assert set(credit) == {0, 1}
    assert find_owed(desk.run.folder, order, desk.units) == Owed()


def test_where_the_retry_fails_too_no_grade_is_given_anew(desk: Desk, tmp_path: Path) -> None:
    reads = replace(GRADER, reads="summaries", summarizer_id=SUMMARIZER.summarizer_id, caps=Caps(whole=300))
    order = make_order(tmp_path, grader=reads, summarizer=SUMMARIZER)
    desk.summarize(order, Model(down))
    desk.grade(order, Model())
    retry = replace(order, retry_degraded_before=datetime.now(UTC))
    assert find_owed(desk.run.folder, retry, desk.units).gradings == 4
    desk.summarize(retry, Model(down))
    model = Model()
    desk.grade(retry, model)
    assert model.requests == []
    assert find_owed(desk.run.folder, retry, desk.units) == Owed()


def test_a_stopped_summary_asks_only_for_the_batches_that_are_missing(tmp_path: Path) -> None:
    """Entries are committed for whole episodes, replies for every batch."""
    desk = Desk.at(played_run(tmp_path, seeds=(1, 2)))
    order = make_order(tmp_path, summarizer=replace(SUMMARIZER, batch=1))
    first = Model(budget=1)
    report = desk.summarize(order, first)[0]
    assert (report.complete, report.counts.entries) == (False, 1)
    rest = Model()
    assert desk.summarize(order, rest)[0].counts.entries == 1
    assert {r.key() for r in first.requests}.isdisjoint(r.key() for r in rest.requests)


def test_an_episode_without_a_decision_is_graded_and_owes_nothing_else(tmp_path: Path) -> None:
    desk = Desk.at(played_run(tmp_path, seeds=(0, 1)))
    order = make_order(tmp_path, grader=GRADER, summarizer=SUMMARIZER, credit=CreditSettings())
    desk.summarize(order, Model())
    desk.grade(order, Model())
    assert len(desk.rows("grades", order.grader_id)) == 2
    assert {row["episode_id"] for row in desk.rows("credit", order.credit_id)} == {episode_id(1)}
    assert find_owed(desk.run.folder, order, desk.units) == Owed()


def test_half_a_character_in_a_reply_is_stored_as_a_replacement(desk: Desk, tmp_path: Path) -> None:
    order = make_order(tmp_path, grader=GRADER)
    desk.grade(order, Model(lambda _request: "\ud83d 大部分"))
    assert {row["content"] for row in desk.rows("calls", order.grader_id)} == {"\ufffd 大部分"}


def test_what_an_id_stands_for_is_written_whole_and_never_changed(desk: Desk, tmp_path: Path) -> None:
    order = make_order(tmp_path, grader=GRADER, summarizer=SUMMARIZER, credit=CreditSettings())
    desk.grade(order, Model())
    assert desk.side.ids("grades") == (order.grader_id,)
    assert set(desk.side.ids("calls")) == {order.grader_id, order.summarizer_id}
    assert desk.side.read_identity("grades", str(order.grader_id)) == json.loads(json.dumps(GRADER.identity()))
    assert desk.side.read_identity("credit", str(order.credit_id))["weights"]["goal"] == 0.45
    with pytest.raises(UsageError, match="stands for something else"):
        desk.side.declare(desk.lease, "grades", str(order.grader_id), {"kind": "another"})


def test_graders_stand_side_by_side(desk: Desk, tmp_path: Path) -> None:
    orders = [make_order(tmp_path, grader=g) for g in (GRADER, replace(GRADER, presentation="reversed"), "heuristic")]
    for order in orders:
        desk.grade(order, Model())
    assert len({order.grader_id for order in orders}) == 3
    assert [len(desk.rows("grades", order.grader_id)) for order in orders] == [4, 4, 4]
