"""Every plot of a report, in the order in which they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rollouts.report.headline import Line
from rollouts.report.plots import answers, grades, outcomes
from rollouts.report.plots.drawing import Plot, Sketch, finished
from rollouts.report.plots.series import Series, series_of
from rollouts.report.reported_run import ReportedRun


def draw_plots(runs: Sequence[ReportedRun], lines: Sequence[Line]) -> list[Plot]:
    """Those that have something to show."""
    return [finished(sketch) for sketch in _sketches(runs, series_of(lines))]


def _sketches(runs: Sequence[ReportedRun], series: Sequence[Series]) -> Iterator[Sketch]:
    yield from outcomes.metric_by_seed(series)
    yield from outcomes.survival(series)
    yield from answers.agreement(series)
    yield from answers.reliability(series)
    yield from answers.latency(series)
    yield from answers.actions(series)
    yield from answers.out_of_schema(series)
    yield from grades.grades(series)
    yield from grades.cost(runs)
