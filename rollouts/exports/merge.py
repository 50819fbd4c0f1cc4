"""Several runs as one set: rows as they are, in the folders and files that a run has, small shards joined into few.

Neighbouring units of one run and one (scenario, rubric, policy) become one, up to a size. Left out are superseded
episodes and what the filters say; grades, summaries and credit come along, calls and feedback stay with their runs.
Memory holds a row group, and the side rows of a unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc

from rollouts.errors import UsageError
from rollouts.exports.samples import Tally
from rollouts.exports.source import Source
from rollouts.loading.committed import OpenRun
from rollouts.loading.rows import Piece, Rows
from rollouts.loading.selection import select
from rollouts.loading.side_columns import SideColumns, choose_sources
from rollouts.plan import episode_ids, superseding
from rollouts.records import PlannedEpisode, ShardFile, Unit
from rollouts.run.origin import MERGED, merged_record
from rollouts.run.side_survey import survey_sides
from rollouts.run.side_tables import SideTables, part_name
from rollouts.shards.reading import read_metadata, read_table
from rollouts.shards.schemas import EPISODES, SCHEMA_VERSION, STEPS, open_writer
from rollouts.shards.side_rows import write_side
from rollouts.shards.writing import GROUP_BYTES, GROUP_ROWS, shard_file, shard_name, write_plan, write_table
from rollouts.store.storage import Storage

SIDES = ("grades", "summaries", "credit")
_STEPS_SHARD = ("steps_shard", "steps_shard_rows", "steps_shard_bytes", "steps_shard_sha256")


@dataclass(frozen=True)
class _Part:
    """A unit of a run, of which the episodes `kept` come along. `run_id`: whose it is, also in a merged set, where
    units of two runs have episodes of one id."""

    run: OpenRun
    run_id: str
    unit: Unit
    kept: frozenset[str]

    @property
    def group(self) -> tuple[str, ...]:
        return (self.run.name, self.run_id, self.unit.scenario, self.unit.rubric, self.unit.policy)

    @property
    def bytes(self) -> int:
        steps = self.run.commits[self.unit.number].steps
        return steps.bytes if steps else 0

    def episodes(self) -> Iterator[PlannedEpisode]:
        there = zip(episode_ids(self.unit), self.unit.episodes, strict=True)
        return (episode for episode_id, episode in there if episode_id in self.kept)


Joined = Sequence[_Part]
"""The parts that become one unit, all of one group."""


@dataclass(frozen=True)
class Merge:
    """`shard_bytes`: units are joined up to that. Errors: `UsageError` where an episode would be there twice, or a
    shard is of another schema version."""

    shard_bytes: int = 1 << 28

    def write(self, source: Source, folder: Path | None, tally: Tally) -> None:
        rows = source.find()
        parts = list(_parts(source))
        _check(parts)
        tally.written = rows.total
        if folder is not None:
            _MergedFolder(folder, rows).write(source, list(_join(parts, self.shard_bytes)))


class _MergedFolder:
    def __init__(self, folder: Path, rows: Rows) -> None:
        self._folder = folder
        self._rows = rows
        self._pieces: dict[tuple[str, str], list[Piece]] = {}
        for piece in rows.pieces:
            self._pieces.setdefault((piece.shard.uri, piece.shard.path), []).append(piece)

    def write(self, source: Source, shards: Sequence[Joined]) -> None:
        units = [_unit(number, parts) for number, parts in enumerate(shards)]
        for name in ("plan", "steps", "episodes"):
            (self._folder / name).mkdir()
        write_plan(self._folder / "plan" / "0000000.parquet", units)
        sides = {run.name: _Sides(run) for run in source.runs}
        for parts, unit in zip(shards, units, strict=True):
            steps = self._write_steps(parts, unit)
            self._write_episodes(parts, unit, steps)
            sides[parts[0].run.name].write(parts, unit, steps, self._folder)
        records = {run_id: record for run in source.runs for run_id, record in run.origin.records.items()}
        (self._folder / MERGED).write_bytes(merged_record(records))

    def _write_steps(self, parts: Joined, unit: Unit) -> ShardFile | None:
        """Row groups of bounded size; None where no episode left a decision."""
        pieces = [piece for part in parts for piece in self._pieces.get(_steps_of(part), ())]
        if not pieces:
            return None
        name = shard_name(unit.part)
        path = self._folder / "steps" / name
        writer = open_writer(str(path), STEPS)
        for group in _groups(map(self._rows.read, pieces)):
            writer.write_table(group, row_group_size=group.num_rows)
        writer.close()
        return shard_file(path, name, sum(piece.count for piece in pieces))

    def _write_episodes(self, parts: Joined, unit: Unit, steps: ShardFile | None) -> None:
        table = pa.concat_tables(map(_episodes_of, parts))
        shard = (steps.name, steps.rows, steps.bytes, steps.sha256) if steps else (None,) * 4
        for column, value in (("unit", unit.number), *zip(_STEPS_SHARD, shard, strict=True)):
            at = EPISODES.get_field_index(column)
            table = table.set_column(at, EPISODES.field(at), pa.array([value] * len(table), EPISODES.field(at).type))
        name = shard_name(unit.part)
        write_table(self._folder / "episodes" / name, table.cast(EPISODES), name)


def _join(parts: Sequence[_Part], most_bytes: int) -> Iterator[Joined]:
    """Neighbours of one group, together at most `most_bytes` (a larger one by itself)."""
    for _, of_group in groupby(parts, key=lambda part: part.group):
        joined: list[_Part] = []
        for part in of_group:
            if joined and sum(one.bytes for one in joined) + part.bytes > most_bytes:
                yield joined
                joined = []
            joined.append(part)
        yield joined


def _unit(number: int, parts: Joined) -> Unit:
    first, episodes = parts[0].unit, tuple(episode for part in parts for episode in part.episodes())
    return Unit(number, first.scenario, first.rubric, first.policy, episodes)


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Row groups joined up to what a shard's groups may have."""
    pending: list[pa.Table] = []
    for table in tables:
        together = [*pending, table]
        too_large = sum(one.nbytes for one in together) > GROUP_BYTES
        if pending and (too_large or sum(one.num_rows for one in together) > GROUP_ROWS):
            yield pa.concat_tables(pending)
            together = [table]
        pending = together
    if pending:
        yield pa.concat_tables(pending)


def _steps_of(part: _Part) -> tuple[str, str]:
    """Where its rows lie, as a piece says it."""
    return part.run.folder.storage.uri, part.run.folder.path("steps", shard_name(part.unit.part))


def _episodes_of(part: _Part) -> pa.Table:
    table = read_table(part.run.folder.storage, part.run.folder.path("episodes", shard_name(part.unit.part)))
    return table.filter(pc.is_in(table["episode_id"], value_set=pa.array(sorted(part.kept))))


class _Sides:
    """The side tables of one run."""

    def __init__(self, run: OpenRun) -> None:
        unfit = survey_sides(run.folder, run.commits).unfit
        self._tables = SideTables(run.folder, unfit)
        self._ids = [(table, id) for table in SIDES for id in self._tables.ids(table)]

    def write(self, parts: Joined, unit: Unit, steps: ShardFile | None, folder: Path) -> None:
        for table, id in self._ids:
            found = ((row, part) for part in parts for row in self._tables.rows(table, id, part.unit))
            kept = [{**row, "unit": unit.number} for row, part in found if row["episode_id"] in part.kept]
            self._declare(folder, table, id)
            if kept:
                (folder / table / id).mkdir(exist_ok=True)
                name, play = part_name(unit.number, 0), steps.sha256 if steps else ""
                write_side(folder / table / id / name, table, kept, name, play)

    def _declare(self, folder: Path, table: str, id: str) -> None:
        """Errors: `UsageError` where two runs mean different things by one id."""
        identity, path = self._tables.read_identity(table, id), folder / table / f"{id}.json"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_text(json.dumps(identity, indent=1, ensure_ascii=False, sort_keys=True), encoding="utf-8")
        elif json.loads(path.read_text(encoding="utf-8")) != identity:
            raise UsageError(f"{table}/{id} stands for something else in two of the runs: merge them apart")


def _parts(source: Source) -> Iterator[_Part]:
    """The units of which an episode comes along, run by run, in the plans' order."""
    selection = select(None, source.filters)
    sources = choose_sources([run.folder for run in source.runs], selection)
    for run in source.runs:
        side = SideColumns(run.folder, run.commits, sources)
        latest = superseding(run.plan, run.commits.keys())
        for unit in run.plan:
            if unit.number in run.commits and selection.wants(unit.scenario, unit.rubric, unit.policy):
                there = {e for e in episode_ids(unit) if run.origin.merged or latest[e] == unit.number}
                kept = there & _graded(side.grades(unit.number)) if selection.graded else there
                if kept:
                    yield _Part(run, _run_id(run, unit), unit, frozenset(kept))


def _run_id(run: OpenRun, unit: Unit) -> str:
    """Of which run a committed unit is."""
    if not run.origin.merged:
        return next(iter(run.origin.records))
    path = run.folder.path("episodes", shard_name(unit.part))
    return str(read_table(run.folder.storage, path, ["run_id"])["run_id"][0])


def _graded(grades: Mapping[str, Mapping[str, Any]]) -> set[str]:
    return {episode_id for episode_id, grade in grades.items() if grade["status"] == "graded"}


def _check(parts: Sequence[_Part]) -> None:
    """The schema of every shard, and that no episode is there twice."""
    seen: dict[tuple[str, str], str] = {}
    for part in parts:
        folder, name = part.run.folder, shard_name(part.unit.part)
        steps = part.run.commits[part.unit.number].steps
        for path in (folder.path("episodes", name), *([folder.path("steps", steps.name)] if steps else [])):
            _check_version(folder.storage, path)
        rows = read_table(folder.storage, folder.path("episodes", name), ["run_id", "episode_id"]).to_pylist()
        for key in ((row["run_id"], row["episode_id"]) for row in rows if row["episode_id"] in part.kept):
            if key in seen:
                raise UsageError(f"episode {key[1]} of run {key[0]} is in {seen[key]} and in {folder.describe()}")
            seen[key] = folder.describe()


def _check_version(storage: Storage, path: str) -> None:
    version = read_metadata(storage, path).get("schema_version")
    if version != SCHEMA_VERSION:
        raise UsageError(f"{storage.describe(path)} has schema version {version}: only {SCHEMA_VERSION} is merged")
