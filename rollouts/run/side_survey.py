"""Which parts of the side tables cannot count, by the files alone: what `survey` is to steps and episodes. Reads only.

Feedback is among them where it is torn.

A part that judges a play says in its file which: by the sha256 of the `steps` shard that was read ("" where the unit
left no decision). One that does not say is taken as it is: calls, and parts from before this was written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rollouts.errors import UsageError
from rollouts.run.feedback_table import FeedbackTable
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_tables import CALLS, READERS, SidePart, SideTables
from rollouts.shards.reading import Commit, TornShard, read_metadata
from rollouts.shards.side_rows import PLAY

Where = tuple[str, str]
"""(table, id)."""
_MADE_IN_ORDER = (CALLS, "summaries", "grades", "credit")


@dataclass(frozen=True, slots=True)
class SideSurvey:
    """Path → what is wrong with it. `torn`: no whole file. `stale`: of a unit that is not committed, or of another play
    of it. `shaken`: whole, but made from a part that is torn or stale."""

    torn: Mapping[str, str]
    stale: Mapping[str, str]
    shaken: Mapping[str, str]

    @property
    def unfit(self) -> dict[str, str]:
        """All, what was made before what it was made from."""
        found = {**self.torn, **self.stale, **self.shaken}
        return dict(sorted(found.items(), key=lambda one: -_order(one[0])))


def _order(path: str) -> int:
    """When it was made: feedback first of all."""
    table = path.split("/")[-3]
    return _MADE_IN_ORDER.index(table) if table in _MADE_IN_ORDER else -1


def survey_sides(folder: RunFolder, commits: Mapping[int, Commit]) -> SideSurvey:
    """Look at the side tables of a run of which `commits` are committed. Errors: `StorageError`."""
    tables = SideTables(folder)
    parts = {where: tables.all_parts(*where) for where in tables.tables()}
    every = [(table, part) for (table, _), some in parts.items() for part in some]
    with ThreadPoolExecutor(READERS) as readers:
        plays = list(readers.map(lambda one: _play(folder, one[1]), every))
    torn = FeedbackTable(folder).torn()
    stale: dict[str, str] = {}
    for (table, part), play in zip(every, plays, strict=True):
        if isinstance(play, TornShard):
            torn[part.path] = str(play)
        elif table != CALLS and (fault := _stale(part, play, commits)):
            stale[part.path] = fault
    return SideSurvey(torn, stale, dict(_shaken(tables, parts, {**torn, **stale})))


def _play(folder: RunFolder, part: SidePart) -> str | TornShard | None:
    try:
        return read_metadata(folder.storage, part.path).get(PLAY)
    except TornShard as error:
        return error


def _stale(part: SidePart, play: str | None, commits: Mapping[int, Commit]) -> str | None:
    commit = commits.get(part.unit)
    if commit is None:
        return f"its unit {part.unit} is not committed"
    there = commit.steps.sha256 if commit.steps else ""
    return None if play in (None, there) else f"it judges another play of unit {part.unit} than the one that is there"


def _shaken(
    tables: SideTables, parts: Mapping[Where, tuple[SidePart, ...]], unfit: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """A unit's whole parts that were made from unfit ones of it, straight or by another table."""
    bad = {(where, part.unit): part.path for where, some in parts.items() for part in some if part.path in unfit}
    for where in sorted(parts, key=lambda where: _MADE_IN_ORDER.index(where[0])):
        sources = _sources(tables, *where) if bad else ()
        for part in parts[where]:
            path = next((bad[source, part.unit] for source in sources if (source, part.unit) in bad), None)
            if path is not None and part.path not in unfit:
                bad.setdefault((where, part.unit), part.path)
                yield part.path, f"it was made from {path.partition('/')[2]}, which does not count"


def _sources(tables: SideTables, table: str, id: str) -> tuple[Where, ...]:
    """What the rows of a table are made from, of the other side tables. An entry does not name its calls."""
    try:
        said = tables.read_identity(table, id) if table in ("grades", "credit") else {}
    except (UsageError, ValueError):
        said = {}
    found = {"summaries": said.get("summarizer_id"), "grades": said.get("grader_id") if table == "credit" else None}
    named = tuple((of, str(name)) for of, name in found.items() if name)
    return ((CALLS, id), *named) if table == "grades" else named
