"""The same in Markdown, for a pull request or a paper: tables, what stands under them, and the plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rollouts.evidence.card import markdown_table, plain
from rollouts.report.evidence_texts import run_facts
from rollouts.report.page import page_title
from rollouts.report.plots.drawing import Plot
from rollouts.report.reported_run import ReportedRun
from rollouts.report.tables import (
    Table,
    failure_table,
    grade_tables,
    judge_lines,
    result_notes,
    result_tables,
    warnings_of,
)


def render_markdown(runs: Sequence[ReportedRun], plots: Sequence[Plot], folder: str) -> str:
    """`folder` is where the plots' files lie, as seen from here."""
    return "\n\n".join(_sections(runs, plots, folder)) + "\n"


def _sections(runs: Sequence[ReportedRun], plots: Sequence[Plot], folder: str) -> Iterator[str]:
    yield f"# {plain(page_title(runs))}"
    yield _listed(f"{run.run_id}: {run_facts(run)}" for run in runs)
    yield from (f"**{plain(warning)}**" for warning in warnings_of(runs))
    yield from map(_table, result_tables(runs))
    yield _listed(result_notes(runs))
    if (failures := failure_table(runs)) is not None:
        yield _table(failures)
    yield from map(_table, grade_tables(runs))
    if told := judge_lines(runs):
        yield _listed(told)
    yield from (f"![{plain(plot.alt)}]({folder}/{plot.name}.png)" for plot in plots)
    yield _listed(f"{run.run_id}: identity sha256 {run.manifest['identity_sha256']}" for run in runs)


def _table(table: Table) -> str:
    return f"### {plain(table.title)}\n\n{markdown_table(table.headings, table.rows, texts=table.numbers_from)}"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)
