"""What graders and summarizers said of single episodes, for whoever shows them: a report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from grading.evidence import completed_episodes
from grading.grade import Grade, Weights, label_agrees, r_human
from grading.judge_reading import read_judge_card
from grading.judge_words import HEADINGS, TEXTS, against_rows, card_lines
from grading.side_reading import side_rows
from grading.side_rows import GRADE_COLUMNS, grade_of, newest_entries, newest_grades
from rollouts.evidence.committed_run import CommittedRun
from rollouts.report.grid import Table
from rollouts.report.judgements import Axis, Judgements, Summary, Verdict
from rollouts.run.side_folder import SideFolder

_AXES = (("goal", "goal_achievement"), ("process", "process_quality"), ("satisfaction", "user_satisfaction"))
_ENTRY = (
    *("unit", "episode_id", "span", "first_tick", "decisions", "tool_call", "summary", "score", "status", "cause"),
    "summarized_at",
)


def judgements(run: CommittedRun, weights: Weights) -> Judgements:
    """Of every completed episode the newest grade of each grader and repeat, R under `weights`; the summaries of the
    first summarizer there; the judge card. Errors: `StorageError`; `UsageError` without scipy."""
    side, completed = SideFolder(run.folder), completed_episodes(run)
    verdicts: dict[str, list[Verdict]] = {}
    for grader_id in side.ids("grades"):
        newest = newest_grades(side_rows(run, "grades", grader_id, GRADE_COLUMNS))
        for (episode_id, repeat), row in sorted(newest.items()):
            if episode_id in completed:
                verdicts.setdefault(episode_id, []).append(_verdict(grader_id, repeat, grade_of(row), weights))
    summarizer_id = next(iter(side.ids("summaries")), None)
    card = read_judge_card(run, weights)
    return Judgements(
        verdicts=verdicts,
        summarizer_id=summarizer_id,
        summaries=lambda wanted: _summaries(run, summarizer_id, wanted),
        card_tables=[Table(title, HEADINGS, rows, TEXTS) for title, rows in against_rows(card)],
        card_lines=list(card_lines(card)) if card.judges else [],
    )


def _verdict(grader_id: str, repeat: int, grade: Grade, weights: Weights) -> Verdict:
    return Verdict(
        grader_id=grader_id,
        source=grade.source,
        model=grade.model,
        repeat=repeat,
        status=grade.status,
        cause=None if grade.cause is None else grade.cause.value,
        detail=grade.detail,
        label=grade.label,
        reason=grade.reason,
        r=r_human(grade, weights),
        axes=tuple(_axes(grade, weights)),
        notes=tuple(_notes(grade)),
    )


def _axes(grade: Grade, weights: Weights) -> Iterator[Axis]:
    """People's own grades have satisfaction alone, and it is the whole of R."""
    for name, stored in _AXES:
        value: float | None = getattr(grade, stored)
        alone = 1.0 if name == "satisfaction" else None
        weight = alone if grade.source == "explicit" else getattr(weights, name)
        yield Axis(name, value, weight, None if value is None or weight is None else value * weight)


def _notes(grade: Grade) -> Iterator[str]:
    if label_agrees(grade) is False:
        yield "the label contradicts the goal axis"
    if grade.cuts.anything:
        yield "the grader did not see the whole episode"
    yield from grade.flags


def _summaries(
    run: CommittedRun, summarizer_id: str | None, wanted: Collection[str]
) -> Mapping[str, Sequence[Summary]]:
    found: dict[str, list[Summary]] = {}
    rows = () if summarizer_id is None else side_rows(run, "summaries", summarizer_id, _ENTRY)
    for _, of_unit in groupby((row for row in rows if row["episode_id"] in wanted), itemgetter("unit")):
        for row in sorted(newest_entries(of_unit).values(), key=itemgetter("episode_id", "span")):
            found.setdefault(row["episode_id"], []).append(_summary(row))
    return found


def _summary(row: Mapping[str, Any]) -> Summary:
    names = ("first_tick", "decisions", "tool_call", "summary", "score", "status", "cause")
    return Summary(**{name: row[name] for name in names})
