"""A report before it is written: its runs, and all that is computed of them, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rollouts.report.headline import Line, lines
from rollouts.report.plots.all import draw_plots
from rollouts.report.plots.drawing import Plot
from rollouts.report.reported_run import ReportedRun


@dataclass(frozen=True)
class Report:
    """`lines` are those of all runs, in the order of `runs`."""

    runs: tuple[ReportedRun, ...]
    lines: tuple[Line, ...]
    plots: tuple[Plot, ...]

    @property
    def title(self) -> str:
        return self.runs[0].run_id if len(self.runs) == 1 else f"{len(self.runs)} runs"


def make_report(runs: Sequence[ReportedRun]) -> Report:
    """Intervals and plots: seconds."""
    told = tuple(line for run in runs for line in lines(run))
    return Report(tuple(runs), told, tuple(draw_plots(runs, told)))
