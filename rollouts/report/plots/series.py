"""The groups of a report as series of its plots: a name and a colour each, the same in every plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rollouts.report.headline import Line
from rollouts.report.measured import MeasuredGroup
from rollouts.report.plots.drawing import COLOURS, MARKERS
from rollouts.report.reported_run import ReportedRun

LONGEST_NAME = 28


@dataclass(frozen=True)
class Series:
    """One group; `name` tells it from the others of its scenario."""

    line: Line
    name: str
    colour: str
    marker: str

    @property
    def run(self) -> ReportedRun:
        return self.line.run

    @property
    def group(self) -> MeasuredGroup:
        return self.line.group

    @property
    def scenario(self) -> str:
        return self.group.facts.scenario


def series_of(lines: Sequence[Line]) -> list[Series]:
    """Colours go by what the name says, so that a policy keeps its colour over scenarios."""
    several = len({line.run.run_id for line in lines}) > 1
    rubrics = len({line.group.facts.rubric for line in lines}) > 1
    names = [_name(line, several, rubrics) for line in lines]
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [
        Series(line, name, COLOURS[place[name] % len(COLOURS)], MARKERS[place[name] % len(MARKERS)])
        for line, name in zip(lines, names, strict=True)
    ]


def by_scenario(series: Sequence[Series]) -> Iterator[tuple[str, list[Series]]]:
    for scenario in dict.fromkeys(one.scenario for one in series):
        yield scenario, [one for one in series if one.scenario == scenario]


def short(name: str) -> str:
    """A name that fits beside an axis: its beginning and its end."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}"


def _name(line: Line, with_run: bool, with_rubric: bool) -> str:
    parts = [short(line.group.facts.policy)]
    parts += [line.group.facts.rubric] if with_rubric else []
    parts += [short(line.run.run_id)] if with_run else []
    return ", ".join(parts)
