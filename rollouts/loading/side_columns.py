"""Grades and credit beside the rows of `steps`: whose are meant, and what counts of them.

Of an episode's grades the one with the highest `grading` counts, of its first repeat. Credit counts where it was given
for that very grading of its grader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rollouts.errors import UsageError
from rollouts.loading.selection import OF_CREDIT, OF_GRADES, Selection
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_survey import survey_sides
from rollouts.run.side_tables import SideTables
from rollouts.shards.reading import Commit
from rollouts.shards.side_rows import read_side
from rollouts.shards.side_schemas import CREDIT, GRADES
from rollouts.store.storage import Storage

Row = Mapping[str, Any]
_MADE_BY = {"grades": "rollouts grade", "credit": "rollouts grade --credit-only"}
_GRADE = ("episode_id", "repeat", *dict.fromkeys((*OF_GRADES.values(), "grading", "status")))
_CREDIT = ("episode_id", "tick", "repeat", "grading", *OF_CREDIT.values())


@dataclass(frozen=True)
class Sources:
    """Whose grades and which credit a reading takes, in every run; None: none are read."""

    grader_id: str | None
    credit_id: str | None


def choose_sources(folders: Sequence[RunFolder], selection: Selection) -> Sources:
    """The ids asked for, or the only ones there. Errors: `UsageError` naming the choices."""
    tables = [SideTables(folder) for folder in folders]
    return Sources(
        _choose("grades", "grader_id", tables, selection.grader_id) if selection.reads_grades else None,
        _choose("credit", "credit_id", tables, selection.credit_id) if selection.reads_credit else None,
    )


class SideColumns:
    """The side tables of one run, unit by unit; what is torn or judges another play is passed over."""

    def __init__(self, folder: RunFolder, commits: Mapping[int, Commit], sources: Sources) -> None:
        self._storage: Storage = folder.storage
        unfit = survey_sides(folder, commits).unfit if sources != Sources(None, None) else {}
        tables = SideTables(folder, unfit)
        judge = sources.grader_id
        if sources.credit_id is not None and sources.credit_id in tables.ids("credit"):
            judge = str(tables.read_identity("credit", sources.credit_id)["grader_id"])
        self._grades = _parts(tables, "grades", sources.grader_id)
        self._credit = _parts(tables, "credit", sources.credit_id)
        self._judged = self._grades if judge == sources.grader_id else _parts(tables, "grades", judge)

    def grades(self, unit: int) -> dict[str, Row]:
        """Episode id → its newest grade."""
        return self._newest(self._grades.get(unit, ()))

    def credit(self, unit: int) -> dict[tuple[str, int], Row]:
        """(episode id, tick) → the credit that counts."""
        newest = self._newest(self._judged.get(unit, ()))
        rows = read_side(self._storage, self._credit.get(unit, ()), _CREDIT)
        return {
            (row["episode_id"], row["tick"]): row
            for row in rows
            if row["repeat"] == 0 and (grade := newest.get(row["episode_id"])) and grade["grading"] == row["grading"]
        }

    def _newest(self, paths: Iterable[str]) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for row in read_side(self._storage, paths, _GRADE):
            before = found.get(row["episode_id"])
            if row["repeat"] == 0 and (before is None or before["grading"] < row["grading"]):
                found[row["episode_id"]] = row
        return found


def joined_column(name: str, grades: Sequence[Row], credit: Sequence[Row]) -> Any:
    """A `pyarrow.Array` of GRADE_COLUMNS or CREDIT_COLUMNS: a value a row, null where its grade or credit is empty."""
    if name in OF_GRADES:
        stored = OF_GRADES[name]
        return pa.array([grade.get(stored) for grade in grades], GRADES.field(stored).type)
    stored = OF_CREDIT[name]
    return pa.array([row.get(stored) for row in credit], CREDIT.field(stored).type)


def joined_type(name: str) -> Any:
    """The `pyarrow.DataType` of such a column."""
    return joined_column(name, (), ()).type


def _choose(table: str, what: str, tables: Sequence[SideTables], wanted: str | None) -> str:
    there = sorted({id for side in tables for id in side.ids(table)})
    named = ", ".join(there)
    if not there:
        raise UsageError(f"these runs have no {table}; {_MADE_BY[table]} RUN makes them")
    if wanted is not None and wanted not in there:
        raise UsageError(f"{what} {wanted!r} is not in these runs; there is {named}")
    if wanted is None and len(there) > 1:
        raise UsageError(f"these runs have {table} of {len(there)} ids: choose a {what} from {named}")
    return wanted or there[0]


def _parts(tables: SideTables, table: str, id: str | None) -> dict[int, list[str]]:
    """Unit number → the paths of its committed parts."""
    found: dict[int, list[str]] = {}
    for part in tables.all_parts(table, id) if id is not None else ():
        found.setdefault(part.unit, []).append(part.path)
    return found
