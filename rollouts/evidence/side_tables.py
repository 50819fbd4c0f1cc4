"""The side tables in the evidence: their shards, and whether their rows are what they must be.

What it finds is sentences, as rollouts/evidence/verify.py does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rollouts.errors import StorageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.plan import episode_ids
from rollouts.records import ShardFile
from rollouts.run.feedback_table import FeedbackTable
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_survey import SideSurvey
from rollouts.run.side_tables import CALLS, SidePart, SideTables, part_name
from rollouts.shards.side_rows import read_distinct, read_side

KEYS: Mapping[str, tuple[str, ...]] = {
    "grades": ("episode_id", "grading", "repeat"),
    "summaries": ("episode_id", "span"),
    "credit": ("episode_id", "grading", "repeat", "tick"),
    "calls": ("call_id",),
}
"""What names a row within one folder of each table; a degraded entry may have later ones of its name."""
READERS = 8
Steps = Mapping[int, Mapping[str, int]]
"""Unit number → completed episode → its decisions."""
Rows = Sequence[Mapping[str, Any]]


def side_shards(run: CommittedRun, torn: Collection[str] = ()) -> dict[str, tuple[ShardFile, ...]]:
    """`<table>/<id>` → its shards but those at the paths `torn`, measured and hashed anew; `feedback` too where there
    is any."""
    side = SideTables(run.folder, torn)
    found = {f"{table}/{id}": side.shards(table, id) for table, id in side.tables()}
    feedback = FeedbackTable(run.folder).shards()
    return {**found, **({"feedback": feedback} if feedback else {})}


def side_parts(folder: RunFolder) -> dict[str, int]:
    """`<table>/<id>` → how many shards it has, without reading any; `feedback` too where there is any."""
    side = SideTables(folder)
    found = {f"{table}/{id}": len(side.all_parts(table, id)) for table, id in side.tables()}
    feedback = sum(file.name.endswith(".parquet") for file in folder.storage.list(folder.path("feedback")))
    return {**found, **({"feedback": feedback} if feedback else {})}


def wrong_sides(run: CommittedRun, steps: Steps, survey: SideSurvey) -> Iterator[str]:
    """All that is wrong with the side tables of a run, whose completed episodes are given."""
    side = SideTables(run.folder)
    yield from (f"{run.storage.describe(path)}: {fault}" for path, fault in {**survey.torn, **survey.stale}.items())
    for table, id in side.tables():
        where = f"{table}/{id}"
        if id not in side.ids(table):
            yield f"{where}.json is missing: nobody can tell what the id stands for"
        parts = side.all_parts(table, id)
        yield from _gaps(where, parts)
        try:
            yield from _wrong_parts(_check_of(run, table, id, survey.torn), table, parts, steps)
        except StorageError as error:
            yield f"{where} cannot be read: {error}"


def _gaps(where: str, parts: Sequence[SidePart]) -> Iterator[str]:
    most = Counter(part.unit for part in parts)
    for part in parts:
        if part.k >= most[part.unit]:
            yield f"{where}: unit {part.unit} has {most[part.unit]} parts and among them {part_name(part.unit, part.k)}"


def _wrong_parts(check: _Check, table: str, parts: Sequence[SidePart], steps: Steps) -> Iterator[str]:
    by_unit: dict[int, list[str]] = {}
    for part in (part for part in parts if part.path not in check.torn):
        by_unit.setdefault(part.unit, []).append(part.path)
    with ThreadPoolExecutor(READERS) as readers:
        for (unit, _), rows in zip(by_unit.items(), readers.map(check.read, by_unit.values()), strict=True):
            where = f"{table}/{check.id}: unit {unit}"
            if unit in steps or table == CALLS:
                yield from check.keys(where, unit, rows, steps.get(unit, {}))
                yield from check.more(where, unit, rows, steps.get(unit, {}))


class _Check:
    """How the rows of a table are read, and what must hold beyond their keys. `torn` are paths that cannot be read."""

    columns: tuple[str, ...] = ()

    def __init__(self, run: CommittedRun, table: str, id: str, torn: Collection[str]) -> None:
        self.run = run
        self.id = id
        self.torn = torn
        self._key = KEYS[table]
        self._columns = tuple(dict.fromkeys(("run_id", "episode_id", "unit", *self._key, *self.columns)))

    def read(self, paths: Sequence[str]) -> Rows:
        return read_side(self.run.storage, paths, self._columns)

    def keys(self, where: str, unit: int, rows: Rows, steps: Mapping[str, int]) -> Iterator[str]:
        """Each row of the run, of the unit and of one of its completed episodes, and once."""
        keys = Counter(tuple(row[name] for name in self._key) for row in self.counted(rows))
        yield from (f"{where}: {' '.join(map(str, key))} stands {n} times" for key, n in keys.items() if n > 1)
        strangers = sorted({row["episode_id"] for row in rows} - steps.keys())
        yield from (f"{where}: {key} is no completed episode of it" for key in strangers)
        wrong_run = {row["run_id"] for row in rows} - {self.run.record["run_id"]}
        yield from (f"{where}: rows of run {name!r}" for name in wrong_run)
        if any(row["unit"] != unit for row in rows):
            yield f"{where}: rows of another unit"

    def counted(self, rows: Rows) -> Rows:
        """The rows that no later one replaces."""
        return rows

    def more(self, where: str, unit: int, rows: Rows, steps: Mapping[str, int]) -> Iterator[str]:  # noqa: ARG002
        yield from ()


class _Grades(_Check):
    columns = ("call_id",)

    def more(self, where: str, unit: int, rows: Rows, steps: Mapping[str, int]) -> Iterator[str]:  # noqa: ARG002
        """Each grade that a model gave names its call."""
        named = {row["call_id"] for row in rows if row["call_id"] is not None}
        side = SideTables(self.run.folder, self.torn)
        parts = [p.path for p in side.parts_of(CALLS, self.id, unit)] if named else []
        there = {row["call_id"] for path in parts for row in read_distinct(self.run.storage, path, ("call_id",))}
        yield from (f"{where}: call {call_id} of a grade is missing" for call_id in sorted(named - there))


class _Summaries(_Check):
    columns = ("decisions", "status")

    def counted(self, rows: Rows) -> Rows:
        """A degraded entry is replaced by whatever comes later."""
        last = {(row["episode_id"], row["span"]): number for number, row in enumerate(rows)}
        return [
            row
            for number, row in enumerate(rows)
            if row["status"] != "degraded" or last[row["episode_id"], row["span"]] == number
        ]

    def more(self, where: str, unit: int, rows: Rows, steps: Mapping[str, int]) -> Iterator[str]:  # noqa: ARG002
        """The spans of an episode hold its decisions, all of them."""
        held: Counter[str] = Counter()
        for row in self.counted(rows):
            held[row["episode_id"]] += row["decisions"]
        yield from _unequal(where, held, steps, "decisions in its spans")


class _Credit(_Check):
    def more(self, where: str, unit: int, rows: Rows, steps: Mapping[str, int]) -> Iterator[str]:  # noqa: ARG002
        """A credited episode has a row for each of its decisions."""
        ticks: dict[tuple[str, int, int], set[int]] = {}
        for row in rows:
            ticks.setdefault((row["episode_id"], row["grading"], row["repeat"]), set()).add(row["tick"])
        for (episode_id, grading, _), there in sorted(ticks.items()):
            if there != set(range(steps.get(episode_id, 0))):
                expected = steps.get(episode_id)
                yield f"{where}: {episode_id}, grading {grading}: {len(there)} rows for {expected} decisions"


class _Calls(_Check):
    """Calls are on file also where the try at the episode was given up, or the unit had to be played again since."""

    def keys(self, where: str, unit: int, rows: Rows, steps: Mapping[str, int]) -> Iterator[str]:  # noqa: ARG002
        planned = {episode_id: 0 for one in self.run.plan if one.number == unit for episode_id in episode_ids(one)}
        yield from super().keys(where, unit, rows, planned)


_CHECKS: Mapping[str, type[_Check]] = {"grades": _Grades, "summaries": _Summaries, "credit": _Credit, "calls": _Calls}


def _check_of(run: CommittedRun, table: str, id: str, torn: Collection[str]) -> _Check:
    return _CHECKS.get(table, _Check)(run, table, id, torn)


def _unequal(where: str, held: Mapping[str, int], steps: Mapping[str, int], what: str) -> Iterator[str]:
    for episode_id, n in held.items():
        if n != steps.get(episode_id):
            yield f"{where}: {episode_id} has {n} {what}, and {steps.get(episode_id)} decisions"
