"""Which lines an order takes, what each waits for, and what earlier starts left."""

from __future__ import annotations

import pytest

from grading.credit import CreditSettings, parse_rule
from grading.grader import GraderSettings
from grading.judge import Stage
from grading.lines import LocalBench, SideWish, add_owed, lanes_of, make_pipeline, stages_of
from grading.order import GradingOrder
from grading.owed import Owed
from grading.summarizer import SummarizerSettings
from rollouts.calls.endpoint import Endpoint
from rollouts.calls.limits import Limits
from tests.lane_doubles import SideCommitsDouble
from tests.pool_doubles import make_units

ENDPOINT = Endpoint("http://127.0.0.1:9/v1")
JUDGE = GraderSettings("judge")
SCRIBE = SummarizerSettings("scribe")
READER = GraderSettings("judge", reads="summaries", summarizer_id=SCRIBE.summarizer_id)
EVENTS = CreditSettings(parse_rule("events"))
BY_SUMMARY = CreditSettings(parse_rule("summary"))
NOTHING: frozenset[Stage] = frozenset()


def wish(judged_where_played: bool = False, **order: object) -> SideWish:
    fields = {"run_id": "run", "out": "/nowhere", "endpoint": ENDPOINT, **order}
    return SideWish(
        GradingOrder(**fields),  # type: ignore[arg-type]
        Limits(),
        graders=2,
        summarizers=3,
        lanes=5,
        judged_where_played=judged_where_played,
    )


@pytest.mark.parametrize(
    ("wished", "stages"),
    [
        (wish(grader=JUDGE), [("grades", NOTHING, True)]),
        (wish(summarizer=SCRIBE), [("summaries", NOTHING, True)]),
        (wish(grader=JUDGE, summarizer=SCRIBE), [("summaries", NOTHING, True), ("grades", NOTHING, True)]),
        (
            wish(grader=READER, summarizer=SCRIBE),
            [("summaries", NOTHING, True), ("grades", frozenset({"summaries"}), True)],
        ),
        (wish(judged_where_played=True, grader="heuristic"), [("grades", NOTHING, False)]),
    ],
    ids=["grader", "summarizer", "both", "a reader of summaries", "graded where played"],
)
def test_a_grader_waits_for_summaries_only_where_it_reads_them(
    wished: SideWish, stages: list[tuple[Stage, frozenset[Stage], bool]]
) -> None:
    assert stages_of(wished) == stages


@pytest.mark.parametrize(
    ("wished", "comes_late"),
    [
        (wish(grader=JUDGE, credit=EVENTS), False),
        (wish(grader=JUDGE, summarizer=SCRIBE, credit=EVENTS), False),
        (wish(grader=JUDGE, summarizer=SCRIBE, credit=BY_SUMMARY), True),
        (wish(grader=READER, summarizer=SCRIBE, credit=BY_SUMMARY), False),
        (wish(judged_where_played=True, grader="heuristic", summarizer=SCRIBE, credit=BY_SUMMARY), True),
    ],
)
def test_credit_has_a_line_of_its_own_only_where_grading_cannot_give_it(wished: SideWish, comes_late: bool) -> None:
    """The line is there for what earlier starts left; it is fed where summaries may come after the grade."""
    stage, after, fed = stages_of(wished)[-1]
    assert (stage, after) == ("credit", {"summaries", "grades"})
    assert fed == comes_late


def test_only_stages_that_call_a_model_have_the_lanes_of_their_actors() -> None:
    order = wish(grader=JUDGE, summarizer=SCRIBE, credit=EVENTS)
    assert (lanes_of(order, "grades"), lanes_of(order, "summaries"), lanes_of(order, "credit")) == (10, 15, 2)
    assert lanes_of(wish(grader="heuristic"), "grades") == 2


@pytest.mark.parametrize(("rule", "credits"), [(EVENTS, 1), (BY_SUMMARY, 3)])
def test_what_earlier_starts_left_comes_to_the_stages_that_owe_it(rule: CreditSettings, credits: int) -> None:
    """Unit 0 lacks a grade, 1 summaries, 2 credit. Credit by summaries can change with a late grade or summary."""
    wished = wish(grader=JUDGE, summarizer=SCRIBE, credit=rule)
    pipeline = make_pipeline(wished, LocalBench(wished), SideCommitsDouble())
    graded, summarized, credited = make_units(3)
    add_owed(pipeline, Owed(grades=(graded,), summaries=(summarized,), credit=(credited,)), wished)
    assert {stage: s.units for stage, s in pipeline.status().items()} == {
        "summaries": 1,
        "grades": 1,
        "credit": credits,
    }
    pipeline.close()
