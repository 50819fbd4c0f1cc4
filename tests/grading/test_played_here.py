from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from grading.credit import CreditSettings
from grading.owed import Owed, find_owed
from grading.played_here import JudgeHere
from rollouts.errors import UsageError
from tests.judged_runs import GRADER, Desk, episode_id, make_order, played_run

IGNORED = {"graded_at"}


def test_heuristic_grades_and_credit_come_with_the_unit(tmp_path: Path) -> None:
    order = make_order(tmp_path, grader="heuristic", credit=CreditSettings())
    desk = Desk.at(played_run(tmp_path, judge=JudgeHere(order)))
    grades = desk.rows("grades", order.grader_id)
    axes = ("goal_achievement", "process_quality", "user_satisfaction")
    assert [tuple(row[axis] for axis in axes) for row in grades] == [(1.0, 1.0, 0.0)] * 4
    assert {(row["source"], row["label"], row["call_id"]) for row in grades} == {("heuristic", "success", None)}
    values = [row["value"] for row in desk.rows("credit", order.credit_id) if row["episode_id"] == episode_id(1)]
    assert values == pytest.approx([0.75 * 0.9**n for n in (4, 3, 2, 1, 0)])
    assert find_owed(desk.run.folder, order, desk.units) == Owed()
    assert desk.side.ids("calls") == ()


def test_they_equal_those_made_of_the_committed_run(tmp_path: Path) -> None:
    order = make_order(tmp_path / "a", grader="heuristic", credit=CreditSettings())
    here = Desk.at(played_run(tmp_path / "a", judge=JudgeHere(order)))
    later = Desk.at(played_run(tmp_path / "b"))
    later.grade(make_order(tmp_path / "b", grader="heuristic", credit=CreditSettings()))
    for table, id in (("grades", order.grader_id), ("credit", order.credit_id)):
        mine, others = here.rows(table, id), later.rows(table, id)
        assert mine
        assert [{k: v for k, v in row.items() if k not in IGNORED} for row in mine] == [
            {k: v for k, v in row.items() if k not in IGNORED} for row in others
        ]


@pytest.mark.parametrize("changes", [{"tics": 8}, {"step_cap": 3}])
def test_baselines_hold_for_the_published_settings_only(tmp_path: Path, changes: dict[str, Any]) -> None:
    order = make_order(tmp_path, grader="heuristic", credit=CreditSettings())
    desk = Desk.at(played_run(tmp_path, judge=JudgeHere(order), **changes))
    rows = desk.rows("grades", order.grader_id)
    assert {(row["status"], row["cause"], row["goal_achievement"]) for row in rows} == {
        ("ungraded", "no_baseline", None)
    }
    assert desk.rows("credit", order.credit_id) == []


def test_an_order_for_workers_can_be_sent_and_needs_no_model(tmp_path: Path) -> None:
    judge = JudgeHere(make_order(tmp_path, grader="heuristic"))
    assert pickle.loads(pickle.dumps(judge)) == judge
    with pytest.raises(UsageError, match="llm grades are not made where"):
        JudgeHere(make_order(tmp_path, grader=GRADER))
