"""What is owed of a run's grading: which units, how many questions. Reads key columns of committed shards alone.

The same rules serve a worker that looks at one unit and the driver that looks at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from grading.order import GradingOrder
from grading.said import Said, read_said, said_sha256
from grading.side_rows import newest_entries, newest_grades
from grading.task_summary import Cuts
from rollouts.plan import episode_ids
from rollouts.records import Unit
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_tables import SideTables
from rollouts.shards.reading import read_table
from rollouts.shards.writing import shard_name

GRADE_KEYS = ("episode_id", "grading", "repeat", "status", "feedback_sha256", "graded_at", "cut")
ENTRY_KEYS = ("episode_id", "span", "status", "summarized_at")
CREDIT_KEYS = ("episode_id", "grading", "repeat")
READERS = 8
Keys = Sequence[Mapping[str, Any]]
Times = Mapping[str, datetime]
"""Episode id → a time."""
NEVER: Times = {}
_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Owed:
    """Committed units, in the plan's order, of which some row is still owed; `gradings` counts the owed grades.

    A unit whose grades are owed is not in `credit`: its grading task gives credit too, except where the rule reads
    summaries that are not there yet; ask again when all is graded.
    """

    grades: tuple[Unit, ...] = ()
    summaries: tuple[Unit, ...] = ()
    credit: tuple[Unit, ...] = ()
    gradings: int = 0
    summary_episodes: int = 0

    @property
    def anything(self) -> bool:
        return bool(self.grades or self.summaries or self.credit)

    @property
    def asks_models(self) -> bool:
        """Whether there is anything that takes a model, if models judge."""
        return bool(self.grades or self.summaries)


@dataclass(frozen=True, slots=True)
class Question:
    """A grade that is owed: the `repeat`-th of equal questions in the `grading`-th grading of an episode."""

    episode_id: str
    grading: int
    repeat: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an order wants of each episode."""

    repeats: int = 1
    retry_ungraded_before: datetime | None = None
    said: Said = field(default_factory=dict)

    def questions(self, episode_ids: Iterable[str], rows: Keys, replaced: Times = NEVER) -> list[Question]:
        """The grades owed of some completed episodes, of whose committed rows GRADE_KEYS are given.

        `replaced` says when summaries that the grader reads were last replaced.
        """
        by_episode: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            by_episode.setdefault(row["episode_id"], []).append(row)
        return [
            question
            for key in episode_ids
            for question in self._of_episode(key, by_episode.get(key, ()), replaced.get(key))
        ]

    def _of_episode(self, key: str, rows: Keys, replaced: datetime | None) -> Iterator[Question]:
        """A grading is of one state of what is read: feedback or summaries since then start the next one."""
        told = said_sha256(self.said.get(key, ()))

        def is_current(row: Mapping[str, Any]) -> bool:
            return row["feedback_sha256"] == told and not _read_before(row, replaced)

        top = max((row["grading"] for row in rows), default=0)
        going = top if all(is_current(row) for row in rows if row["grading"] == top) else top + 1
        newest = newest_grades(rows)
        for repeat in range(self.repeats):
            row = newest.get((key, repeat))
            if row is None or not is_current(row):
                yield Question(key, going, repeat)
            elif self._again(row):
                yield Question(key, max(going, row["grading"] + 1), repeat)

    def _again(self, row: Mapping[str, Any]) -> bool:
        before = self.retry_ungraded_before
        return before is not None and row["status"] == "ungraded" and row["graded_at"] < before


def _read_before(row: Mapping[str, Any], replaced: datetime | None) -> bool:
    """Whether a grade read summaries that were replaced since. One whose task was short enough has read none."""
    return replaced is not None and row["graded_at"] < replaced and Cuts.from_json(row["cut"]).was_too_long


def wanted_of(order: GradingOrder, folder: RunFolder, said: Said | None = None) -> Wanted:
    """What the order wants, with the run's feedback as it is now, or with `said`."""
    return Wanted(order.repeats, order.retry_ungraded_before, read_said(folder) if said is None else said)


def unsummarized(episode_ids: Iterable[str], rows: Keys, retry_before: datetime | None = None) -> list[str]:
    """The episodes without entries, and those of which `degraded_spans` are to be asked for again.

    (One without a decision has no entries to give: it is for the caller to know.)
    """
    done, again = {row["episode_id"] for row in rows}, degraded_spans(rows, retry_before)
    return [key for key in episode_ids if key not in done or key in again]


def degraded_spans(rows: Keys, before: datetime | None) -> dict[str, list[int]]:
    """Episode id → the spans whose entry that counts is a degraded one from before that time; None: no time."""
    found: dict[str, list[int]] = {}
    for (key, span), row in newest_entries(rows).items():
        if before is not None and row["status"] == "degraded" and row["summarized_at"] < before:
            found.setdefault(key, []).append(span)
    return {key: sorted(spans) for key, spans in found.items()}


def replaced(order: GradingOrder, rows: Keys) -> dict[str, datetime]:
    """Episode id → when an entry with a score last took the place of a degraded one, of the entries `rows` that the
    order's grader reads. Where that is still to be tried it counts as done, at the end of time."""
    found: dict[str, datetime] = {}
    degraded: set[tuple[str, int]] = set()
    for row in rows:
        key = (row["episode_id"], row["span"])
        if row["status"] == "degraded":
            degraded.add(key)
        elif key in degraded:
            found[key[0]] = max(row["summarized_at"], found.get(key[0], row["summarized_at"]))
    before = order.retry_degraded_before if order.reads_id == order.summarizer_id else None
    return found | dict.fromkeys(degraded_spans(rows, before), _LAST)


def uncredited(episode_ids: Iterable[str], grades: Keys, credit: Keys, scored: Collection[str] | None) -> list[str]:
    """The episodes whose newest grade (repeat 0) is there and has no credit; of those in `scored` alone, if given."""
    newest, done = newest_grades(grades), {(row["episode_id"], row["grading"]) for row in credit}

    def is_owed(key: str) -> bool:
        row = newest.get((key, 0))
        graded = row is not None and row["status"] == "graded" and (key, row["grading"]) not in done
        return graded and (scored is None or key in scored)

    return [key for key in episode_ids if is_owed(key)]


def scored_episodes(rows: Keys) -> set[str]:
    """The episodes each of whose entries has a score: those that the credit rule `summary` can serve."""
    newest = newest_entries(rows).values()
    return {row["episode_id"] for row in newest} - {row["episode_id"] for row in newest if row["status"] != "ok"}


def find_owed(  # noqa: PLR0913  the last three have defaults
    folder: RunFolder,
    order: GradingOrder,
    units: Sequence[Unit],
    *,
    credit_only: bool = False,
    said: Said | None = None,
    unfit: Collection[str] = (),
) -> Owed:
    """What `order` still wants of `units` (committed ones); parts at the paths `unfit` do not count.

    `credit_only`: the credit alone, from the newest grades that are there, whatever else is owed. `said` is taken for
    the run's feedback where it is given. Errors: `StorageError`.
    """
    look = _Look(SideTables(folder, unfit), order, said)
    with ThreadPoolExecutor(READERS) as readers:
        found = list(readers.map(look.at, units))
    if credit_only:
        return Owed(credit=tuple(unit for unit, owed in zip(units, found, strict=True) if owed.uncredited))
    graded = tuple(unit for unit, owed in zip(units, found, strict=True) if owed.questions)
    return Owed(
        grades=graded,
        summaries=tuple(unit for unit, owed in zip(units, found, strict=True) if owed.unsummarized),
        credit=tuple(u for u, owed in zip(units, found, strict=True) if owed.uncredited and not owed.questions),
        gradings=sum(owed.questions for owed in found),
        summary_episodes=sum(owed.unsummarized for owed in found),
    )


@dataclass(frozen=True, slots=True)
class _OfUnit:
    questions: int
    unsummarized: int
    uncredited: int


class _Look:
    """The key columns of a whole run, and what they say of one unit."""

    def __init__(self, side: SideTables, order: GradingOrder, said: Said | None) -> None:
        self._folder = folder = side.folder
        self._order = order
        self._wanted = wanted_of(order, folder, said)
        self._grades = side.keys("grades", order.grader_id, GRADE_KEYS) if order.grader_id else {}
        self._entries = side.keys("summaries", order.summarizer_id, ENTRY_KEYS) if order.summarizer_id else {}
        self._read = side.keys("summaries", order.reads_id, ENTRY_KEYS) if order.reads_id else {}
        self._credit = side.keys("credit", order.credit_id, CREDIT_KEYS) if order.credit_id else {}

    def at(self, unit: Unit) -> _OfUnit:
        """Looks into the unit's `episodes` shard only where something seems owed: episodes may have failed."""
        planned = episode_ids(unit)
        if not any(self._owed(unit, planned, planned)):
            return _OfUnit(0, 0, 0)
        steps = self._decisions(unit)
        return _OfUnit(*map(len, self._owed(unit, tuple(steps), tuple(key for key, n in steps.items() if n))))

    def _owed(
        self, unit: Unit, episodes: Sequence[str], with_steps: Sequence[str]
    ) -> tuple[Sequence[object], Sequence[object], Sequence[object]]:
        order, grades = self._order, self._grades.get(unit.number, ())
        entries = self._entries.get(unit.number, ())
        since = replaced(order, self._read.get(unit.number, ()))
        questions = self._wanted.questions(episodes, grades, since) if order.grader else ()
        summaries = unsummarized(with_steps, entries, order.retry_degraded_before) if order.summarizer else ()
        if order.credit is None:
            return questions, summaries, ()
        scored = scored_episodes(entries) if order.credit.rule.name == "summary" else None
        return questions, summaries, uncredited(with_steps, grades, self._credit.get(unit.number, ()), scored)

    def _decisions(self, unit: Unit) -> dict[str, int]:
        """The completed episodes of a unit, in its order, with their numbers of decisions."""
        path = self._folder.path("episodes", shard_name(unit.part))
        rows = read_table(self._folder.storage, path, ("episode_id", "status", "steps")).to_pylist()
        return {row["episode_id"]: row["steps"] for row in rows if row["status"] == "completed"}
