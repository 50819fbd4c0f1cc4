"""The groups of a report as series of its plots: a name and a colour each, the same in every plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rollouts.report.measured import MeasuredGroup
from rollouts.report.plots.drawing import COLOURS, MARKERS
from rollouts.report.reported_run import ReportedRun

LONGEST_NAME = 28


@dataclass(frozen=True)
class Series:
    """One group; `name` tells it from the others of its scenario."""

    run: ReportedRun
    group: MeasuredGroup
    name: str
    colour: str
    marker: str

    @property
    def scenario(self) -> str:
        return self.group.facts.scenario


def series_of(runs: Sequence[ReportedRun]) -> list[Series]:
    """Colours go by what the name says, so that a policy keeps its colour over scenarios."""
    rubrics = {group.facts.rubric for run in runs for group in run.groups}
    named = [(run, group, _name(run, group, len(runs) > 1, len(rubrics) > 1)) for run in runs for group in run.groups]
    place = {name: number for number, name in enumerate(dict.fromkeys(name for _, _, name in named))}
    return [
        Series(run, group, name, COLOURS[place[name] % len(COLOURS)], MARKERS[place[name] % len(MARKERS)])
        for run, group, name in named
    ]


def by_scenario(series: Sequence[Series]) -> Iterator[tuple[str, list[Series]]]:
    for scenario in dict.fromkeys(one.scenario for one in series):
        yield scenario, [one for one in series if one.scenario == scenario]


def short(name: str) -> str:
    """A name that fits beside an axis: its beginning and its end."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}"


def _name(run: ReportedRun, group: MeasuredGroup, with_run: bool, with_rubric: bool) -> str:
    parts = [short(group.facts.policy)]
    parts += [group.facts.rubric] if with_rubric else []
    parts += [short(run.run_id)] if with_run else []
    return ", ".join(parts)
