"""Committed rows of side tables for the evidence: some columns, shard by shard, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from grading.grade import Grade
from grading.side_rows import GRADE_COLUMNS, grade_of
from rollouts.evidence.committed_run import CommittedRun
from rollouts.run.feedback_table import FeedbackTable
from rollouts.run.side_tables import SideTables
from rollouts.shards.reading import iter_batches

Rows = Iterator[dict[str, Any]]
_GRADE_COLUMNS = (
    *("episode_id", "grading", "repeat", "source", "status", "cause", "detail", "label", "cut"),
    *("goal_achievement", "process_quality", "user_satisfaction"),
)


def side_rows(run: CommittedRun, table: str, id: str, columns: Sequence[str]) -> Rows:
    """The rows of one side table, as `{column: value}`, unit by unit and part by part as they were added."""
    return _rows(run, [part.path for part in SideTables(run.folder).all_parts(table, id)], columns)


def feedback_rows(run: CommittedRun, columns: Sequence[str]) -> Rows:
    """What people said, in the order in which it was handed in."""
    return _rows(run, FeedbackTable(run.folder).parts(), columns)


def _rows(run: CommittedRun, paths: Iterable[str], columns: Sequence[str]) -> Rows:
    for path in paths:
        for batch in iter_batches(run.storage, path, columns):
            yield from batch.to_pylist()


def newest_grades(
    run: CommittedRun, grader_id: str, wanted: Mapping[str, object]
) -> tuple[dict[tuple[str, int], Grade], int]:
    """By (episode id, repeat) the grade of the highest grading, for the episodes `wanted`; and the highest grading."""
    newest: dict[tuple[str, int], tuple[int, Grade]] = {}
    for row in side_rows(run, "grades", grader_id, _GRADE_COLUMNS):
        key, grading = (row["episode_id"], row["repeat"]), row["grading"]
        if key[0] in wanted and (key not in newest or newest[key][0] < grading):
            newest[key] = (grading, grade_of({**dict.fromkeys(GRADE_COLUMNS), **row}))
    return {key: grade for key, (_, grade) in newest.items()}, max((n for n, _ in newest.values()), default=0)
