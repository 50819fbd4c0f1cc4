"""R and cost, episode by episode, for whoever compares policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grading.compared import side_measures
from grading.grade import Weights
from rollouts.comparison.played import Ratio
from rollouts.evidence.committed_run import CommittedRun
from tests.made_runs import made_run
from tests.side_doubles import commit_rows, episode, grade

ONE, TWO = "counting.rule.half.1.0", "counting.rule.half.2.0"


def call(run: CommittedRun, seed: int, **columns: Any) -> dict[str, Any]:
    return {**episode(run, seed), "kind": "decide", "status": "answered", "call_id": "c", **columns}


def test_r_is_of_each_grader_alone_and_of_all_its_repeats(tmp_path: Path) -> None:
    """R with all weight on the goal; what has no score adds nothing."""
    run = made_run(tmp_path)
    rows = [
        grade(run, 1, "llm", (1.0, 0.0, 0.0)),
        grade(run, 1, "llm", (0.5, 0.0, 0.0), repeat=1),
        grade(run, 2, "llm", None, cause="empty"),
    ]
    commit_rows(run, "grades", "judge-1", {"kind": "llm", "model": "judge"}, rows)
    by_formula = [grade(run, 1, "heuristic", (-1.0, 0.0, 0.0))]
    commit_rows(run, "grades", "heuristic-2", {"kind": "heuristic"}, by_formula)
    found = side_measures(Weights(1.0, 0.0, 0.0))(run)
    assert found == {ONE: {"R (llm judge-1)": Ratio(1.5, 2.0), "R (heuristic-2)": Ratio(-1.0, 1.0)}}


def test_an_episodes_calls_are_added_up(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    calls = [
        call(run, 1, cost_usd=0.25, tokens_in=10, tokens_out=2),
        call(run, 1, cost_usd=0.5, tokens_in=20, tokens_out=3),
        call(run, 2, tokens_in=5),
        call(run, 2, kind="grade", cost_usd=9.0, tokens_in=900),
    ]
    commit_rows(run, "calls", "policy-1", {}, calls)
    found = side_measures(Weights())(run)
    assert found == {ONE: {"cost_usd": Ratio(0.75), "tokens": Ratio(35.0)}, TWO: {"tokens": Ratio(5.0)}}
