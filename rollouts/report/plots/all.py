"""Every plot of a report, in the order in which they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rollouts.report.plots import answers, grades, outcomes
from rollouts.report.plots.drawing import Plot, Sketch, finished
from rollouts.report.plots.series import series_of
from rollouts.report.reported_run import ReportedRun


def draw_plots(runs: Sequence[ReportedRun]) -> list[Plot]:
    """Those that have something to show."""
    return [finished(sketch) for sketch in _sketches(runs)]


def _sketches(runs: Sequence[ReportedRun]) -> Iterator[Sketch]:
    series = series_of(runs)
    yield from outcomes.metric_by_seed(series)
    yield from outcomes.survival(series)
    yield from answers.agreement(series)
    yield from answers.reliability(series)
    yield from answers.latency(series)
    yield from answers.actions(series)
    yield from answers.out_of_schema(series)
    yield from grades.grades(series)
    yield from grades.cost(runs)
