from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import Any

import pytest

from grading.credit import CreditSettings, parse_rule
from grading.grade import Weights
from grading.order import GradingOrder
from rollouts.errors import UsageError
from tests.judged_runs import GRADER, SUMMARIZER, make_order

CREDIT = CreditSettings()
FULL = make_order("runs", grader=GRADER, summarizer=SUMMARIZER, credit=CREDIT)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"grader": GRADER, "endpoint": None}, "no endpoint is known"),
        ({"summarizer": SUMMARIZER, "endpoint": None}, "no endpoint is known"),
        ({"credit": CREDIT}, "credit needs a grader"),
        ({"grader": "heuristic", "credit": CreditSettings(parse_rule("summary"))}, "needs a summarizer"),
        ({"grader": replace(GRADER, reads="summaries")}, "needs to know whose"),
        ({"grader": "heuristic", "repeats": 0}, "repeat 0: must be 1 or more"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_said(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        make_order("runs", **changes)


def test_weights_are_in_the_credits_id_and_not_in_the_graders() -> None:
    other = replace(FULL, weights=Weights(1.0, 0.0, 0.0))
    assert (other.grader_id, other.summarizer_id) == (FULL.grader_id, FULL.summarizer_id)
    assert other.credit_id != FULL.credit_id


@pytest.mark.parametrize(
    "credit",
    [CreditSettings(gamma=0.5), CreditSettings(parse_rule("constant:0.5")), CreditSettings(parse_rule("summary"))],
)
def test_rule_and_gamma_are_in_the_credits_id(credit: CreditSettings) -> None:
    assert replace(FULL, credit=credit).credit_id != FULL.credit_id


def test_another_grader_is_another_credit() -> None:
    ids = {replace(FULL, grader=grader).credit_id for grader in (GRADER, replace(GRADER, language="zh"), "heuristic")}
    assert len(ids) == 3


def test_only_credit_by_summaries_depends_on_the_summarizer() -> None:
    another = replace(SUMMARIZER, batch=7)
    by_summary = replace(FULL, credit=CreditSettings(parse_rule("summary")))
    assert replace(FULL, summarizer=another).credit_id == FULL.credit_id
    assert replace(by_summary, summarizer=another).credit_id != by_summary.credit_id


def test_each_folder_with_the_text_behind_it() -> None:
    tables = [(table, id) for table, id, _ in FULL.folders()]
    assert tables == [
        ("grades", FULL.grader_id),
        ("summaries", FULL.summarizer_id),
        ("calls", FULL.summarizer_id),
        ("calls", FULL.grader_id),
        ("credit", FULL.credit_id),
    ]
    assert all(re.fullmatch(r"[a-z0-9._-]+-[0-9a-f]{8}", str(id)) for _, id in tables)
    heuristic = make_order("runs", grader="heuristic", endpoint=None, credit=CREDIT)
    assert [table for table, _, _ in heuristic.folders()] == ["grades", "credit"]
    assert (heuristic.source, heuristic.uses_model, heuristic.models) == ("heuristic", False, ())


def test_an_order_can_be_sent_and_names_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-marker-of-this-test")
    sent = pickle.dumps(FULL)
    assert b"sk-marker" not in sent
    back: GradingOrder = pickle.loads(sent)
    assert (back, back.models) == (FULL, ("judge-model", "writer-model"))
