"""The same in Markdown, for a pull request or a paper: tables, what stands under them, and the plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rollouts.evidence.card import markdown_table, plain
from rollouts.report.evidence_texts import run_facts
from rollouts.report.grid import Table
from rollouts.report.report import Report
from rollouts.report.tables import (
    card_lines,
    card_tables,
    failure_table,
    grade_tables,
    judge_lines,
    result_notes,
    result_tables,
    warnings_of,
)


def render_markdown(report: Report, folder: str) -> str:
    """`folder` is where the plots' files lie, as seen from here."""
    return "\n\n".join(_sections(report, folder)) + "\n"


def _sections(report: Report, folder: str) -> Iterator[str]:
    runs = report.runs
    yield f"# {plain(report.title)}"
    yield _listed(f"{run.run_id}: {run_facts(run)}" for run in runs)
    yield from (f"**{plain(warning)}**" for warning in warnings_of(runs))
    yield from map(_table, result_tables(report.lines))
    yield _listed(result_notes(runs))
    if (failures := failure_table(runs)) is not None:
        yield _table(failures)
    yield from map(_table, grade_tables(runs, report.lines))
    if told := judge_lines(runs):
        yield _listed(told)
    yield from map(_table, card_tables(runs))
    if card := card_lines(runs):
        yield _listed(card)
    yield from (f"![{plain(plot.alt)}]({folder}/{plot.name}.png)" for plot in report.plots)
    yield _listed(f"{run.run_id}: identity sha256 {run.manifest['identity_sha256']}" for run in runs)


def _table(table: Table) -> str:
    return f"### {plain(table.title)}\n\n{markdown_table(table.headings, table.rows, texts=table.numbers_from)}"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)
