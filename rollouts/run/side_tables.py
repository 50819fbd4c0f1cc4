"""The side tables of a run as they lie there: `<table>/<id>/part-<unit>-<k>.parquet` beside `<table>/<id>.json`.

Beside the parts of a grader of whom more than one grading of each episode was asked, `_asked.json` says how many;
beside anybody's calls `_endpoints.json` says where they went, in the order of first use (no part of who that is).

Reads only. A unit's parts are numbered from 0 without a gap, so that finding them takes no listing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rollouts.calls.limits import Spending
from rollouts.errors import UsageError
from rollouts.records import ShardFile, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.shards.reading import count_rows
from rollouts.shards.side_rows import read_distinct, read_side
from rollouts.store.storage import StoredFile

SIDE_TABLES = ("grades", "summaries", "credit", "calls")
CALLS = "calls"
ASKED = "_asked.json"
"""Readers of Parquet folders pass over names that begin with an underscore."""
ENDPOINTS = "_endpoints.json"
_ASKED_BEFORE = "asked.json"
READERS = 8
_PART = re.compile(r"part-(\d{7,})-(\d+)\.parquet")
_SPENT = ("tries", "budget_tokens", "budget_usd", "tokens_in", "tokens_out", "cost_usd")


@dataclass(frozen=True, slots=True)
class SidePart:
    """A committed part: which unit it is of, and the how-manieth."""

    path: str
    unit: int
    k: int
    bytes: int


def part_name(unit: int, k: int) -> str:
    """The name of a unit's k-th part in a side table."""
    return f"part-{unit:07d}-{k}.parquet"


class SideTables:
    """The side tables of the run `folder`; parts at the paths `without` are taken as missing (those that do not count,
    where they cannot be set aside yet). Errors of every method: `StorageError`."""

    def __init__(self, folder: RunFolder, without: Collection[str] = ()) -> None:
        self.folder = folder
        self._without = without
        self._storage = folder.storage

    def ids(self, table: str) -> tuple[str, ...]:
        """All that were ever declared, by name."""
        files = self._storage.list(self.folder.path(table))
        return tuple(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))

    def read_identity(self, table: str, id: str) -> dict[str, Any]:
        """The text behind an id. Errors: `UsageError` where it was never declared."""
        try:
            identity: dict[str, Any] = self._storage.read_json(self.folder.path(table, f"{id}.json"))
        except FileNotFoundError:
            raise UsageError(f"{self.folder.describe(table)} has no {id}") from None
        return identity

    def asked(self, grader_id: str) -> int:
        """How many gradings of each episode were asked of a grader, at most: some may be owed still."""
        return max(self._asked(grader_id, name) for name in (ASKED, _ASKED_BEFORE))

    def _asked(self, grader_id: str, name: str) -> int:
        try:
            return int(self._storage.read_json(self.folder.path("grades", grader_id, name))["repeats"])
        except FileNotFoundError:
            return 1

    def endpoints(self, who: str) -> tuple[str, ...]:
        """The URLs at which the calls of `who` were made, in the order of first use; none of what was never noted."""
        try:
            urls = self._storage.read_json(self.folder.path(CALLS, who, ENDPOINTS))["base_urls"]
        except FileNotFoundError:
            return ()
        return tuple(map(str, urls))

    def parts_of(self, table: str, id: str, unit: int) -> tuple[SidePart, ...]:
        """The committed parts of the unit of that number, in order."""
        names = ((k, self.folder.path(table, id, part_name(unit, k))) for k in itertools.count())
        sizes = ((k, path, self._storage.size(path)) for k, path in names)
        there = itertools.takewhile(lambda found: found[2] is not None, sizes)
        return tuple(SidePart(path, unit, k, size or 0) for k, path, size in there if path not in self._without)

    def parts(self, table: str, id: str, unit: Unit) -> tuple[str, ...]:
        """The paths of a unit's committed parts, in order. Lists nothing."""
        return tuple(part.path for part in self.parts_of(table, id, unit.number))

    def all_parts(self, table: str, id: str) -> tuple[SidePart, ...]:
        """Every committed part of a table, by unit and number."""
        found = (part_of(file) for file in self._storage.list(self.folder.path(table, id)))
        there = (part for part in found if part and part.path not in self._without)
        return tuple(sorted(there, key=lambda part: (part.unit, part.k)))

    def rows(self, table: str, id: str, unit: Unit, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The committed rows of a unit."""
        return read_side(self._storage, self.parts(table, id, unit), columns)

    def keys(self, table: str, id: str, columns: Sequence[str]) -> dict[int, list[dict[str, Any]]]:
        """Unit number → the different rows that `columns` have in its committed parts."""
        parts = self.all_parts(table, id)
        with ThreadPoolExecutor(READERS) as readers:
            read = readers.map(lambda part: read_distinct(self._storage, part.path, columns), parts)
            found: dict[int, list[dict[str, Any]]] = {}
            for part, rows in zip(parts, read, strict=True):
                found.setdefault(part.unit, []).extend(rows)
        return found

    def spent(self) -> Spending:
        """What all calls of the run have cost up to now: the budget's memory (after `recover`)."""
        parts = [part.path for who in self._folders(CALLS) for part in self.all_parts(CALLS, who)]
        with ThreadPoolExecutor(READERS) as readers:
            per_part = readers.map(lambda path: _spent(read_side(self._storage, [path], _SPENT)), parts)
            return sum(per_part, start=Spending())

    def shards(self, table: str, id: str) -> tuple[ShardFile, ...]:
        """Every committed part with its rows, bytes and sha256, read anew."""
        with ThreadPoolExecutor(READERS) as readers:
            return tuple(readers.map(self._shard_file, self.all_parts(table, id)))

    def tables(self) -> tuple[tuple[str, str], ...]:
        """(table, id) of every folder that holds a committed part, by name."""
        return tuple((table, id) for table in SIDE_TABLES for id in self._folders(table))

    def _folders(self, table: str) -> list[str]:
        """The ids under which parts lie."""
        start = self.folder.path(table)
        files = self._storage.list(start, recursive=True)
        return sorted({file.path.removeprefix(f"{start}/").partition("/")[0] for file in files if part_of(file)})

    def _shard_file(self, part: SidePart) -> ShardFile:
        rows, sha256 = count_rows(self._storage, part.path), self._storage.sha256(part.path)
        return ShardFile(part.path.rpartition("/")[2], rows, part.bytes, sha256)


def part_of(file: StoredFile) -> SidePart | None:
    match = _PART.fullmatch(file.name)
    return SidePart(file.path, int(match[1]), int(match[2]), file.bytes) if match else None


def _spent(rows: Iterable[Mapping[str, Any]]) -> Spending:
    return sum((_counted(row) for row in rows), start=Spending())


def _counted(row: Mapping[str, Any]) -> Spending:
    """What a call counts in the budget. A shard from before that was written down has what the endpoint said alone."""
    tokens, usd = row.get("budget_tokens"), row.get("budget_usd")
    if tokens is None:
        tokens = (row["tokens_in"] or 0) + (row["tokens_out"] or 0)
    return Spending(row["tries"] or 0, tokens, row["cost_usd"] or 0.0 if usd is None else usd)
