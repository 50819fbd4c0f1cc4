"""What graders and summarizers said, episode by episode, as a report shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grading.grade import Weights
from grading.judgements import judgements
from rollouts.calls.chat_records import ChatRequest
from tests.judged_runs import GRADER, Desk, Model, episode_id, judged_run, make_order, opened, order_at, played_run


def test_axes_weights_and_shares_of_r(tmp_path: Path) -> None:
    """A heuristic grade of the oracle: goal 1, process 1, satisfaction 0 (see tests/judged_runs.py)."""
    desk = Desk.at(played_run(tmp_path, seeds=(1,)))
    desk.grade(make_order(tmp_path, grader="heuristic"))
    desk.leave()
    (verdict,) = judgements(desk.run, Weights(0.5, 0.2, 0.3)).verdicts[episode_id(1)]
    assert [(axis.name, axis.value, axis.weight, axis.share) for axis in verdict.axes] == [
        ("goal", 1.0, 0.5, 0.5),
        ("process", 1.0, 0.2, 0.2),
        ("satisfaction", 0.0, 0.3, 0.0),
    ]
    assert (verdict.source, verdict.status, verdict.r) == ("heuristic", "graded", pytest.approx(0.7))


def test_verdicts_and_summaries_of_models(tmp_path: Path) -> None:
    judged_run(tmp_path)
    found = judgements(opened(tmp_path), Weights())
    (verdict,) = found.verdicts[episode_id(2)]
    assert (verdict.source, verdict.model, verdict.status) == ("llm", "judge-model-1", "graded")
    assert verdict.r == pytest.approx(sum(axis.share or 0.0 for axis in verdict.axes))
    assert found.summarizer_id == order_at(tmp_path).summarizer_id
    assert found.card_tables[0].title == f"llm {verdict.grader_id}: how near to the outcome"
    assert {len(row) for table in found.card_tables for row in table.rows} == {len(found.card_tables[0].headings)}
    assert any(line.startswith(f"llm {verdict.grader_id}, with itself: not known") for line in found.card_lines)
    summaries = found.summaries([episode_id(2)])
    assert list(summaries) == [episode_id(2)]
    spans = summaries[episode_id(2)]
    assert spans[0].first_tick == 0
    assert sum(span.decisions for span in spans) == 6


def test_an_ungraded_episode_has_its_cause_and_no_score(tmp_path: Path) -> None:
    def refuse(request: ChatRequest) -> str:
        return "no JSON at all"

    desk = Desk.at(played_run(tmp_path, seeds=(1,)))
    desk.grade(make_order(tmp_path, grader=GRADER), Model(refuse))
    desk.leave()
    (verdict,) = judgements(desk.run, Weights()).verdicts[episode_id(1)]
    assert (verdict.status, verdict.cause, verdict.r) == ("ungraded", "not_json", None)
    assert all(axis.value is None and axis.share is None for axis in verdict.axes)
