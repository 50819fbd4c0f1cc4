"""The rows that a reading is about: which row groups they lie in, and which rows of each.

All that decides which rows are wanted is looked at here, once, in narrow columns; so the number of rows is known
before the first picture is read, and whoever reads has only to fetch. It can be pickled, and holds no open file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as pc

from rollouts.errors import StorageError
from rollouts.loading.committed import READERS, OpenRun, StepsShard, committed_shards
from rollouts.loading.selection import Filters, Selection, check_names, select
from rollouts.loading.side_columns import Row, SideColumns, Sources, choose_sources, joined_column, joined_type
from rollouts.shards.reading import group_sizes, read_group, read_table
from rollouts.shards.schemas import STEPS, make_schema

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]
_ACTIONS = ("asked", "out_of_schema", "teacher_action", "model_action", "effective_action")
_NO_ROW: Row = {}


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """The wanted rows of one row group, `count` of them: those at `rows` in it, all where that is None.

    `first` is the number in the shard of the group's first row; `joined` a `pyarrow.Table` of the side columns asked
    for, a row a wanted row.
    """

    shard: StepsShard
    group: int
    first: int
    count: int
    rows: Indices | None
    joined: Any

    def locate(self, row: int) -> str:
        """The shard of the `row`-th wanted row, and its number there (from 0)."""
        return f"{self.shard.describe()}, row {self.first + (row if self.rows is None else int(self.rows[row]))}"


@dataclass(frozen=True, eq=False)
class Rows:
    """The pieces in order: run by run as given, unit by unit, as they lie in the shards."""

    selection: Selection
    pieces: tuple[Piece, ...]

    @cached_property
    def counts(self) -> Indices:
        """(pieces,): wanted rows of each."""
        return np.array([piece.count for piece in self.pieces], np.int64)

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def digest(self) -> str:
        """Of which rows these are, wherever the runs lie."""
        known = hashlib.sha256()
        for piece in self.pieces:
            known.update(f"{piece.shard.path} {piece.group} {piece.count}\n".encode())
            known.update(b"" if piece.rows is None else piece.rows.tobytes())
        return known.hexdigest()

    @cached_property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of what is read; `frame` is an RGB picture to `datasets`."""
        types = {name: joined_type(name) for name in self.selection.joined}
        fields = [(name, types.get(name) or STEPS.field(name).type) for name in self.selection.columns]
        return make_schema(fields, pictures=("frame",) if "frame" in self.selection.columns else ())

    def read(self, piece: Piece) -> Any:
        """A `pyarrow.Table` of the piece's wanted rows. Errors: `StorageError`."""
        stored = self.selection.stored
        columns = {name: piece.joined[name] for name in self.selection.joined}
        if stored:
            with _named(piece.shard):
                table = read_group(piece.shard.storage, piece.shard.path, piece.group, stored)
            table = table if piece.rows is None else table.take(piece.rows)
            columns |= {name: table[name] for name in stored}
        return pa.Table.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)


def find_rows(runs: Sequence[OpenRun], columns: Sequence[str] | None, filters: Filters) -> Rows:
    """Errors: `UsageError`, `StorageError`."""
    selection = select(columns, filters)
    check_names(selection, ((unit.scenario, unit.rubric, unit.policy) for run in runs for unit in run.plan))
    sources = choose_sources([run.folder for run in runs], selection)
    return Rows(selection, tuple(piece for run in runs for piece in _of_run(run, selection, sources)))


def _of_run(run: OpenRun, selection: Selection, sources: Sources) -> list[Piece]:
    shards = committed_shards(run)
    side = SideColumns(run.folder, run.commits, sources)
    units = (unit for unit in run.plan if selection.wants(unit.scenario, unit.rubric, unit.policy))
    wanted = [shards[unit.number] for unit in units if unit.number in shards]
    with ThreadPoolExecutor(READERS) as readers:
        of_shards = list(readers.map(lambda shard: _pieces(shard, selection, side), wanted))
    return [piece for pieces in of_shards for piece in pieces]


def _pieces(shard: StepsShard, selection: Selection, side: SideColumns) -> list[Piece]:
    """The row groups of a shard that have a wanted row."""
    with _named(shard):
        sizes = group_sizes(shard.storage, shard.path)
        wanted, joined = _look(shard, selection, side)
    pieces, first = [], 0
    for group, size in enumerate(sizes):
        rows = np.arange(size) if wanted is None else np.flatnonzero(wanted[first : first + size])
        if len(rows):
            beside = None if joined is None else joined.take(rows + first)
            pieces.append(Piece(shard, group, first, len(rows), rows if len(rows) < size else None, beside))
        first += size
    return pieces


def _look(shard: StepsShard, selection: Selection, side: SideColumns) -> tuple[Mask | None, Any]:
    """Which rows of a shard are wanted (None: all), and a `pyarrow.Table` of the side columns (None: none)."""
    columns = _key_columns(shard, selection)
    if not columns:
        return None, None
    keys = read_table(shard.storage, shard.path, columns)
    wanted = np.ones(keys.num_rows, np.bool_)
    if shard.episodes is not None:
        wanted &= _mask(pc.is_in(keys["episode_id"], value_set=pa.array(sorted(shard.episodes))))
    if selection.disagreement is not None:
        wanted &= disagreements(keys, selection.disagreement)
    grades, credit = _beside(keys, shard.unit, selection, side)
    if selection.graded:
        wanted &= np.array([grade.get("status") == "graded" for grade in grades], np.bool_)
    if selection.min_credit is not None:
        wanted &= np.array([row.get("value", -np.inf) >= selection.min_credit for row in credit], np.bool_)
    joined = {name: joined_column(name, grades, credit) for name in selection.joined}
    return wanted, pa.table(joined) if joined else None


def disagreements(keys: Any, about: str) -> Mask:
    """(n,): the rows of a `pyarrow.Table` of `steps` where the policy ("model") or what was sent ("effective") is not
    the teacher's action; see `Filters`."""
    teacher = keys["teacher_action"]
    column = "model_action" if about == "model" else "effective_action"
    other = ~_mask(pc.fill_null(pc.equal(keys[column], teacher), False))
    there = _mask(pc.is_valid(teacher))
    if about == "effective":
        return there & other & _mask(pc.is_valid(keys["effective_action"]))
    return there & _mask(keys["asked"]) & (other | _mask(keys["out_of_schema"]))


def _key_columns(shard: StepsShard, selection: Selection) -> list[str]:
    """What must be looked at to know which rows of a shard are wanted, and what stands beside them."""
    reads_sides = selection.reads_grades or selection.reads_credit
    columns = ["episode_id"] if reads_sides or shard.episodes is not None else []
    columns += ["tick"] if selection.reads_credit else []
    return columns + (list(_ACTIONS) if selection.disagreement is not None else [])


def _beside(keys: Any, unit: int, selection: Selection, side: SideColumns) -> tuple[list[Row], list[Row]]:
    """A row's grade and credit; an empty one where it has none."""
    grades: list[Row] = []
    credit: list[Row] = []
    if selection.reads_grades:
        by_episode = side.grades(unit)
        grades = [by_episode.get(episode, _NO_ROW) for episode in keys["episode_id"].to_pylist()]
    if selection.reads_credit:
        by_tick = side.credit(unit)
        ticks = zip(keys["episode_id"].to_pylist(), keys["tick"].to_pylist(), strict=True)
        credit = [by_tick.get(key, _NO_ROW) for key in ticks]
    return grades, credit


def _mask(array: Any) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False) if isinstance(array, pa.Array) else array.to_numpy()
    return mask


@contextmanager
def _named(shard: StepsShard) -> Iterator[None]:
    """A shard that is not there any more is told by its name."""
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{shard.describe()} is gone") from error
