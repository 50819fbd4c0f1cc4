"""The table at the top, against numbers counted by hand (see tests/made_runs.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.evidence.episode_numbers import EpisodeNumbers
from rollouts.evidence.results import EpisodeRow
from rollouts.report.headline import grade_estimates, lines, metric_estimate
from rollouts.report.judgements import Axis, Verdict
from tests.made_runs import HALF_RIGHT, SILENT, Played, Turn, made_run
from tests.reported_runs import histories_run, reported


def test_a_line_by_hand(tmp_path: Path) -> None:
    """Metrics 2, 4, 9; of 4 asked decisions 2 agree; Brier 0.32, 0.98, 0.01; 1 of 5 decisions out of schema."""
    half, absent = lines(reported(made_run(tmp_path)))
    assert (half.metric.value, half.metric.n, half.metric.unit) == (5.0, 3, "episode")
    assert half.agreement is not None
    assert (half.agreement.value, half.agreement.n) == (0.5, 2)
    assert half.brier is not None
    assert half.brier.value == pytest.approx((0.32 + 0.98 + 0.01) / 3)
    assert (half.out_of_schema.value, half.n_out_of_schema, half.n_decisions) == (0.2, 1, 5)
    assert (absent.metric.value, absent.metric.told()) == (None, "-")
    assert absent.cells[4] == "0 of 3"


def test_one_episode_has_no_interval(tmp_path: Path) -> None:
    run = histories_run(tmp_path, {"once": [Played(HALF_RIGHT, 2.0)]})
    (line,) = lines(reported(run))
    assert line.metric.told() == "2.00 [undefined]"


def test_the_manifest_says_the_same(tmp_path: Path) -> None:
    histories = {"a": [Played(HALF_RIGHT, 2.0), Played(SILENT, 4.0), Played(failure=("engine", "it died"))]}
    run = reported(histories_run(tmp_path, histories))
    (line,), (block,) = lines(run), run.manifest["results"]
    assert line.metric.value == block["left_aggregate"]["mean"]
    assert line.agreement is not None
    assert line.brier is not None
    assert line.agreement.value == block["rubric_agreement"]["agreement"]
    assert line.brier.value == pytest.approx(block["rubric_agreement"]["brier"])
    assert line.out_of_schema.value == block["n_out_of_schema"] / block["n_decisions"]
    assert line.cells[4] == "2 of 3"


def _reached(metric: float) -> EpisodeNumbers:
    return EpisodeNumbers(EpisodeRow("e", 1, 0, "completed", metric, 1, 1.0))


def test_a_share_of_episodes_has_wilsons_interval() -> None:
    """0 of 20: from 0 to z² / (20 + z²)."""
    found = metric_estimate([_reached(0.0)] * 20, "share")
    assert found.interval is not None
    z2 = 1.959963984540054**2
    assert (found.interval.low, found.interval.high) == (pytest.approx(0.0), pytest.approx(z2 / (20 + z2)))
    assert metric_estimate([_reached(0.0)] * 20, "s").interval is None


def test_a_metric_that_is_no_number_is_in_no_mean() -> None:
    found = metric_estimate([_reached(1.0), _reached(float("nan")), _reached(3.0)], "s")
    assert (found.value, found.n) == (2.0, 2)


def _verdict(r: float | None, repeat: int = 0) -> Verdict:
    axes = () if r is None else (Axis("goal", r, 0.45, 0.45 * r),)
    status = "ungraded" if r is None else "graded"
    return Verdict("judge", "llm", "m", repeat, status, None, None, None, None, r, axes)


def test_an_ungraded_episode_is_in_no_mean_of_r() -> None:
    """Gradings 0.5, 0.7 of one episode and -0.3 of another: 0.9 / 3; the ungraded one counts nowhere."""
    found = grade_estimates([[_verdict(0.5), _verdict(0.7, 1)], [_verdict(-0.3)], [_verdict(None)], []])
    assert (found["R"].value, found["R"].n) == (pytest.approx(0.3), 2)
    assert found["process"].value is None


def test_the_teacher_as_a_policy_is_marked(tmp_path: Path) -> None:
    (line,) = lines(reported(histories_run(tmp_path, {"oracle": [Played((Turn("down", {"down": 1.0}),), 1.0)] * 2})))
    assert line.cells[5] == "1.000 [undefined]*"
