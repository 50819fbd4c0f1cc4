"""The tables of a report, and the lines under them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rollouts.evidence.grading_table import grader_titles, grading_lines
from rollouts.evidence.own_answers import much_not_its_own
from rollouts.evidence.table import coverage_lines, notes
from rollouts.report.grid import Table
from rollouts.report.headline import GRADES, HEADINGS, INTERVALS, NUMBERS_FROM, Line
from rollouts.report.reported_run import ReportedRun


def result_tables(lines: Sequence[Line]) -> list[Table]:
    """One a scenario, in the plan's order; with several runs each line says which it is of."""
    several = len({line.run.run_id for line in lines}) > 1
    tables = []
    for scenario in dict.fromkeys(line.group.facts.scenario for line in lines):
        own = [line for line in lines if line.group.facts.scenario == scenario]
        metric = own[0].run.metric(scenario)
        headings = [heading.replace("mean", f"{metric['name']}: mean") for heading in HEADINGS]
        rows = [(*_of_run(line.run, several), *line.cells) for line in own]
        title = f"{scenario}: {metric['name']} ({metric['unit']})"
        tables.append(Table(title, (*_run_heading(several), *headings), rows, NUMBERS_FROM + several))
    return tables


def result_notes(runs: Sequence[ReportedRun]) -> list[str]:
    """What has to stand under the results, once each."""
    own = [line for run in runs for line in (*_named(run, coverage_lines(run.manifest), runs), *notes(run.manifest))]
    return list(dict.fromkeys((*own, INTERVALS)))


def warnings_of(runs: Sequence[ReportedRun]) -> list[str]:
    """What must not be overlooked."""
    found = [line for run in runs for line in _named(run, map(str, much_not_its_own(run.manifest)), runs)]
    unfinished = [run for run in runs if run.status.owed]
    damaged = [f"{run.run_id}: {path}: {why}" for run in runs for path, why in sorted(run.run.damaged.items())]
    return [*found, *damaged, *(f"{run.run_id} is {run.status.state}: {_owed(run)} owed" for run in unfinished)]


def _owed(run: ReportedRun) -> str:
    planned = sum(group.planned for group in run.status.groups)
    return f"{run.status.owed:,} of {planned:,} episodes"


def failure_table(runs: Sequence[ReportedRun]) -> Table | None:
    """Stage and cause of every failure; None where nothing failed."""
    several = len(runs) > 1
    rows = [(*_of_run(run, several), *_failure(failure)) for run in runs for failure in run.manifest["failures"]]
    headings = (*_run_heading(several), "scenario", "rubric", "policy", "stage", "cause", "episodes", "the first")
    return Table("Failed episodes", headings, rows, len(headings)) if rows else None


def _failure(failure: Mapping[str, Any]) -> tuple[str, ...]:
    group = [str(failure[key]) for key in ("scenario", "rubric", "policy", "stage", "cause")]
    return (*group, f"{failure['n']:,}", failure["first_episodes"][0])


def grade_tables(runs: Sequence[ReportedRun], lines: Sequence[Line]) -> list[Table]:
    """One a run and grader, each with its source and its coverage."""
    several = len(runs) > 1
    return [
        _of_grader(grader, f"{run.run_id}: {title}" if several else title, [line for line in lines if line.run is run])
        for run in runs
        for grader, title in zip(run.graders, grader_titles(run.manifest), strict=True)
    ]


def _of_grader(grader: Mapping[str, Any], title: str, lines: Sequence[Line]) -> Table:
    headings = ("scenario", "rubric", "policy", *(f"{name} ({grader['source']}) [95 %]" for name in GRADES), "graded")
    graded = {(g["scenario"], g["rubric"], g["policy"]): f"{g['graded']:,} of {g['of']:,}" for g in grader["groups"]}
    rows = [
        (
            *line.group.facts.name,
            *(estimate.told(3, "+") for estimate in line.grades[grader["grader_id"]].values()),
            graded.get(line.group.facts.name, "0 of 0"),
        )
        for line in lines
    ]
    return Table(title, headings, rows, 3)


def judge_lines(runs: Sequence[ReportedRun]) -> list[str]:
    """What is missing and why, what disagrees, what it took."""
    return [line for run in runs for line in _named(run, grading_lines(run.manifest), runs)]


def card_tables(runs: Sequence[ReportedRun]) -> list[Table]:
    """How near each judge is to the outcome of what it judged."""
    return [
        dataclasses.replace(table, title=f"{run.run_id}: {table.title}") if len(runs) > 1 else table
        for run in runs
        for table in run.judgements.card_tables
    ]


def card_lines(runs: Sequence[ReportedRun]) -> list[str]:
    """The rest of the judge card, once each."""
    return list(dict.fromkeys(line for run in runs for line in _named(run, run.judgements.card_lines, runs)))


def _named(run: ReportedRun, told: Iterable[str], runs: Sequence[ReportedRun]) -> list[str]:
    return [f"{run.run_id}: {line}" if len(runs) > 1 else line for line in told]


def _of_run(run: ReportedRun, several: bool) -> tuple[str, ...]:
    return (run.run_id,) if several else ()


def _run_heading(several: bool) -> tuple[str, ...]:
    return ("run",) if several else ()
