"""One task on one unit: what is committed of it, what the task adds, and the shards in which it stages that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from grading.credit import credit_rows
from grading.entries import scores_by_tick, stand_ins
from grading.feedback import FeedbackRow
from grading.grade import Grade, r_human
from grading.order import GradingOrder
from grading.owed import CREDIT_KEYS, Question, Wanted, degraded_spans, replaced, scored_episodes, uncredited
from grading.played import PlayedEpisode
from grading.said import said_sha256
from grading.side_rows import (
    ENTRY_COLUMNS,
    GRADE_COLUMNS,
    Row,
    RowMaker,
    entries_by_episode,
    grade_of,
    newest_grades,
)
from grading.summarizer import Summaries
from grading.task_summary import StandIn
from grading.transcript import spans
from rollouts.records import SideCounts, SideReport, SideShard, Unit
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_tables import CALLS, part_name
from rollouts.scratch import ScratchFolder
from rollouts.shards.side_rows import read_side, write_side

Rows = list[dict[str, Any]]


class UnitTask:
    """Reads what is committed when it is made (nothing where the unit is `fresh`), stages what was added in `finish`.

    `calls` and `stop` are set by whoever asks models: (who, rows), and why some of the work is still owed.
    """

    def __init__(  # noqa: PLR0913  what a task is, all of it
        self,
        order: GradingOrder,
        side: SideFolder,
        unit: Unit,
        attempt: str,
        played: Sequence[PlayedEpisode],
        *,
        fresh: bool = False,
    ) -> None:
        self.unit = unit
        self.attempt = attempt
        self.played = tuple(played)
        self.make = RowMaker(order.run_id, unit, partial(datetime.now, UTC))
        self.calls: tuple[str, Rows] | None = None
        self.stop: tuple[Literal["budget", "stopped"], str] | None = None
        self._order = order
        self._side = side
        self._fresh = fresh
        self._play = self.played[0].play if self.played else None
        self._next: dict[str, int] = {}
        self._grades: Rows = []
        self._entries: Rows = []
        self.committed_grades = self._read("grades", order.grader_id, GRADE_COLUMNS)
        self._credit_keys = self._read("credit", order.credit_id, CREDIT_KEYS)
        self._entry_rows = self._read("summaries", order.summarizer_id, ENTRY_COLUMNS)
        self.entries = entries_by_episode(self._entry_rows)
        self._rows_read_by_grader = self._read_by_grader()
        self.entries_read_by_grader = entries_by_episode(self._rows_read_by_grader)

    @property
    def ids(self) -> list[str]:
        """The completed episodes of the unit, in its order."""
        return [episode.id for episode in self.played]

    def episode(self, episode_id: str) -> PlayedEpisode:
        return next(episode for episode in self.played if episode.id == episode_id)

    def questions(self, wanted: Wanted) -> list[Question]:
        """The grades that are owed of the unit."""
        if self._order.grader is None:
            return []
        return wanted.questions(self.ids, self.committed_grades, replaced(self._order, self._rows_read_by_grader))

    def spans_owed(self) -> list[tuple[PlayedEpisode, list[int]]]:
        """Each episode of which spans are to be summarized, with their numbers: all, or those to be asked for again."""
        again = degraded_spans(self._entry_rows, self._order.retry_degraded_before)
        found: list[tuple[PlayedEpisode, list[int]]] = []
        for episode in self.played:
            done = episode.id in self.entries
            numbers = again.get(episode.id, []) if done else list(range(len(spans(episode.steps))))
            if numbers:
                found.append((episode, numbers))
        return found

    def stand_ins(self, episode_id: str) -> dict[str, StandIn]:
        """The scored entries of an episode, for a grader that reads summaries."""
        return stand_ins(self.entries_read_by_grader[episode_id])

    def add_grade(
        self, question: Question, grade: Grade, said: Sequence[FeedbackRow], call_id: str | None = None
    ) -> None:
        columns = {
            "grading": question.grading,
            "repeat": question.repeat,
            "call_id": call_id,
            "n_feedback": len(said),
            "feedback_sha256": said_sha256(said),
        }
        key = self.episode(question.episode_id).key
        self._grades.append(self.make.grade(key, grade, str(self._order.grader_id), **columns))

    def add_entries(self, episode: PlayedEpisode, numbers: Sequence[int], made: Summaries) -> None:
        """The entries of the spans of these numbers."""
        found = spans(episode.steps)
        for number, entry in zip(numbers, made.entries, strict=True):
            columns = {"span": number, "summarizer_id": self._order.summarizer_id}
            self._entries.append(self.make.entry(episode.key, found[number], entry, made.prompt, **columns))

    def finish(self, *, with_credit: bool = True) -> SideReport:
        """Stage all that was added, with the credit that can be given now. Errors: `StorageError`."""
        order, credit = self._order, self._credit() if with_credit else []
        grades, entries = self._in_order(self._grades), self._in_order(self._entries)
        who, calls = self.calls or (None, [])
        staged = (
            *(("calls", who, calls), ("summaries", order.summarizer_id, entries)),
            *(("grades", order.grader_id, grades), ("credit", order.credit_id, credit)),
        )
        with ScratchFolder("side") as scratch:
            shards = tuple(self._stage(scratch, table, id, rows) for table, id, rows in staged if id and rows)
        return SideReport(
            unit=self.unit.number,
            attempt=self.attempt,
            shards=shards,
            failures=self._failures(),
            counts=_counts(grades, entries, calls, credit),
            complete=self.stop is None,
            stop=self.stop,
        )

    def _read(self, table: str, id: str | None, columns: Sequence[str]) -> Rows:
        """The committed rows of the unit; the part that the task will make is the one after those that it read."""
        if id is None or self._fresh:
            return []
        parts = self._side.parts(table, id, self.unit)
        self._next[table] = len(parts)
        return read_side(self._side.folder.storage, parts, columns)

    def _read_by_grader(self) -> Rows:
        reads = self._order.reads_id
        if reads is None or reads == self._order.summarizer_id:
            return self._entry_rows if reads else []
        return self._side.rows("summaries", reads, self.unit, ENTRY_COLUMNS)

    def _credit(self) -> Rows:
        credit = self._order.credit
        if credit is None:
            return []
        by_summary = credit.rule.name == "summary"
        scored = scored_episodes(self._entry_rows) if by_summary else None
        grades = (*self.committed_grades, *self._grades)
        newest, found = newest_grades(grades), Rows()
        for key in uncredited(self.ids, grades, self._credit_keys, scored):
            episode, graded = self.episode(key), newest[key, 0]
            r = r_human(grade_of(graded), self._order.weights)
            rows = credit_rows(r, episode.steps, credit, scores_by_tick(self.entries[key]) if by_summary else None)
            if rows and r is not None:
                found += self.make.credit(episode.key, rows, dict(graded), r, self._order)
        return found

    def _in_order(self, rows: Rows) -> Rows:
        """Episode by episode as the unit has them: tasks end in any order, the shard does not show it."""
        place = {key: number for number, key in enumerate(self.ids)}
        return sorted(rows, key=lambda row: (place[row["episode_id"]], row.get("repeat", 0), row.get("span", 0)))

    def _stage(self, scratch: Path, table: str, id: str, rows: Rows) -> SideShard:
        local = scratch / f"{table}.spool"
        name = part_name(self.unit.number, self._next.get(table, 0))
        file = write_side(local, table, rows, name, None if table == CALLS else self._play)
        self._side.stage(self.unit, self.attempt, table, id, local)
        return SideShard(table, id, file)

    def _failures(self) -> tuple[tuple[str, str] | None, ...]:
        """Of what this task has made: each episode without a score, or with degraded entries."""
        found: dict[str, tuple[str, str]] = {}
        for row in self._entries:
            if row["status"] == "degraded":
                found.setdefault(row["episode_id"], ("summaries", str(row["cause"])))
        for row in self._grades:
            if row["status"] == "ungraded":
                found.setdefault(row["episode_id"], ("grading", str(row["cause"])))
        keys = self.unit.keys()
        return tuple(found.get(key.episode_id) for key in keys)


def _counts(grades: Rows, entries: Rows, calls: Rows, credit: Rows) -> SideCounts:
    paid = [row for row in calls if not row.get("reused_call_id")]
    return SideCounts(
        graded=sum(row["status"] == "graded" for row in grades),
        ungraded=_causes(grades, lambda row: row["status"] == "ungraded"),
        entries=len(entries),
        summarized=len({row["episode_id"] for row in entries}),
        degraded=_causes(entries, lambda row: row["status"] == "degraded"),
        credited=len({row["episode_id"] for row in credit}),
        calls=len(paid),
        requests=sum(row["tries"] for row in paid),
        reused=len(calls) - len(paid),
        tokens_in=sum(row.get("tokens_in") or 0 for row in paid),
        tokens_out=sum(row.get("tokens_out") or 0 for row in paid),
        cost_usd=sum(row.get("cost_usd") or 0.0 for row in paid),
        unpriced=sum(row.get("tokens_in") is not None and row.get("cost_usd") is None for row in paid),
    )


def _causes(rows: Iterable[Row], counts: Callable[[Row], bool]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(str(row["cause"]) for row in rows if counts(row)).items()))
