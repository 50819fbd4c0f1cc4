"""The side tables of a run: private attempts, the commits of the one driver, and what lies there.

`<table>/<id>/part-<unit>-<k>.parquet` beside `<table>/<id>.json`, the whole text behind the id. A side table is only
ever added to: a unit's parts are numbered from 0 without a gap. A task names the part it was made for; if another one
has come in between, the task counts for nothing. Calls are promoted before what was made of them.

    side = SideFolder(run_folder)
    side.recover(lease)                                 # driver, after run_folder.recover(lease)
    side.declare(lease, "grades", grader_id, identity)  # driver, before the first unit is sent
    side.stage(unit, attempt, "grades", grader_id, local)   # worker
    side.promote(lease, report)                         # driver
    side.gather(lease)                                  # driver, at the end
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouts.calls.limits import Spending
from rollouts.errors import TryVoid, UsageError
from rollouts.records import ShardFile, SideReport, SideShard, Unit
from rollouts.run.call_journal import CallJournal
from rollouts.run.lease import Lease
from rollouts.run.run_folder import STAGING, TORN, RunFolder
from rollouts.shards.reading import TornShard, count_rows
from rollouts.shards.side_rows import SideRow, read_distinct, read_side, write_side
from rollouts.store.storage import StoredFile, is_temporary

SIDE_TABLES = ("grades", "summaries", "credit", "calls")
CALLS = "calls"
READERS = 8
_LOCKS = 64
_PART = re.compile(r"part-(\d{7,})-(\d+)\.parquet")
_SPENT = ("tries", "tokens_in", "tokens_out", "cost_usd")


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


class SideFolder:
    """The side tables of the run `folder`. Errors of every method: `StorageError`."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.journal = CallJournal(folder)
        self._storage = folder.storage
        self._promoting = tuple(threading.Lock() for _ in range(_LOCKS))

    def declare(self, lease: Lease, table: str, id: str, identity: Mapping[str, Any]) -> None:
        """Write the text behind an id, unless it is there. Errors: `LeaseError`; `UsageError`: another is there."""
        path = self.folder.path(table, f"{id}.json")
        if not self._storage.exists(path):
            with lease.held():
                text = json.dumps(identity, indent=1, ensure_ascii=False, sort_keys=True)
                self._storage.write_bytes(path, text.encode("utf-8", "backslashreplace"))
        elif self.read_identity(table, id) != json.loads(json.dumps(identity)):
            raise UsageError(f"{self._storage.describe(path)} stands for something else than what is asked for now")

    def ids(self, table: str) -> tuple[str, ...]:
        """All that were ever declared, by name."""
        files = self._storage.list(self.folder.path(table))
        return tuple(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))

    def read_identity(self, table: str, id: str) -> dict[str, Any]:
        """The text behind an id. Errors: `UsageError` where it was never declared."""
        try:
            identity: dict[str, Any] = json.loads(self._storage.read_bytes(self.folder.path(table, f"{id}.json")))
        except FileNotFoundError:
            raise UsageError(f"{self.folder.describe(table)} has no {id}") from None
        return identity

    def parts(self, table: str, id: str, unit: Unit) -> tuple[str, ...]:
        """The paths of a unit's committed parts, in order. Lists nothing."""
        return tuple(part.path for part in self.parts_of(table, id, unit.number))

    def all_parts(self, table: str, id: str) -> tuple[SidePart, ...]:
        """Every committed part of a table, by unit and number."""
        found = (_part_of(file) for file in self._storage.list(self.folder.path(table, id)))
        return tuple(sorted((part for part in found if part), key=lambda part: (part.unit, part.k)))

    def parts_of(self, table: str, id: str, unit: int) -> tuple[SidePart, ...]:
        """The committed parts of the unit of that number, in order."""
        names = ((k, self.folder.path(table, id, part_name(unit, k))) for k in itertools.count())
        sizes = ((k, path, self._storage.size(path)) for k, path in names)
        there = itertools.takewhile(lambda found: found[2] is not None, sizes)
        return tuple(SidePart(path, unit, k, size or 0) for k, path, size in there)

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

    def stage(self, unit: Unit, attempt: str, table: str, id: str, local: Path) -> None:
        """Put a finished file here, whole and private; `local` may be moved away."""
        self._storage.put_file(local, self._staged(unit.number, attempt, table, id))

    def promote(self, lease: Lease, report: SideReport) -> bool:
        """Commit what a task has staged; False where it staged nothing. Threads may promote at once.

        Errors: `LeaseError`; `TryVoid` where the attempt cannot count (files missing or cut off, of another driver's
        time, or the unit has got further parts since it began): nothing is committed then, do the unit again.
        """
        if not report.shards:
            return False
        with self._promoting[report.unit % _LOCKS], lease.held():
            self._check(lease, report)
            moved = [self._move(report, shard) for shard in report.shards]
        for path, shard in zip(moved, report.shards, strict=True):
            if shard.table == CALLS:
                self.journal.forget(shard.id, report.unit, self._call_ids([path]))
        self._storage.delete_tree(self.folder.path(STAGING, _staging(report.unit), report.attempt))
        return True

    def recover(self, lease: Lease) -> None:
        """Put the side tables in order: what is damaged is set aside, replies on file that no shard has are gathered.

        An empty part takes the place of a damaged one, so that the numbers stay without a gap; its rows are owed again.
        """
        with lease.held():
            for table in SIDE_TABLES:
                files = self._storage.list(self.folder.path(table), recursive=True)
                for file in (file for file in files if is_temporary(file.name)):
                    self._storage.delete(file.path)
                self._mend(table, [part for part in map(_part_of, files) if part])
        self.gather(lease)

    def gather(self, lease: Lease) -> None:
        """Move replies that are on file one by one into shards of `calls`. Done by `recover`, and to be done last."""
        for (who, unit), rows in self.journal.left().items():
            with self._promoting[unit % _LOCKS], lease.held():
                known = set(self._call_ids(part.path for part in self.parts_of(CALLS, who, unit)))
                fresh = [row for row in rows if row["call_id"] not in known]
                if fresh:
                    self._append(CALLS, who, unit, fresh)
            self.journal.forget(who, unit, [row["call_id"] for row in rows])
        self.journal.clear()

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
        return sorted({file.path.removeprefix(f"{start}/").partition("/")[0] for file in files if _part_of(file)})

    def _shard_file(self, part: SidePart) -> ShardFile:
        rows, sha256 = count_rows(self._storage, part.path), self._storage.sha256(part.path)
        return ShardFile(part.path.rpartition("/")[2], rows, part.bytes, sha256)

    def _staged(self, unit: int, attempt: str, table: str, id: str) -> str:
        return self.folder.path(STAGING, _staging(unit), attempt, f"{table}.{id}.staged")

    def _check(self, lease: Lease, report: SideReport) -> None:
        if not report.attempt.startswith(lease.attempt_prefix):
            raise TryVoid(f"attempt {report.attempt} at unit {report.unit} belongs to another driver's time")
        for shard in report.shards:
            found = self._storage.size(self._staged(report.unit, report.attempt, shard.table, shard.id))
            if found != shard.file.bytes:
                there = "are missing" if found is None else f"have {found} bytes, not {shard.file.bytes}"
                raise TryVoid(f"the {shard.table} that attempt {report.attempt} staged {there}")
            target = self.folder.path(shard.table, shard.id, shard.file.name)
            if shard.table != CALLS and self._storage.exists(target):
                raise TryVoid(f"{self._storage.describe(target)} has come in since attempt {report.attempt} began")

    def _move(self, report: SideReport, shard: SideShard) -> str:
        source = self._staged(report.unit, report.attempt, shard.table, shard.id)
        if shard.table == CALLS:
            return self._move_next(source, CALLS, shard.id, report.unit)
        target = self.folder.path(shard.table, shard.id, shard.file.name)
        self._storage.move(source, target)
        return target

    def _move_next(self, source: str, table: str, id: str, unit: int) -> str:
        """Give a file the name of the unit's next part."""
        for k in itertools.count():
            target = self.folder.path(table, id, part_name(unit, k))
            if not self._storage.exists(target):
                self._storage.move(source, target)
                return target
        raise AssertionError("unreachable")

    def _append(self, table: str, id: str, unit: int, rows: Sequence[SideRow]) -> None:
        attempt = f"gathered-{secrets.token_hex(4)}"
        source = self._staged(unit, attempt, table, id)
        self._put(source, table, rows)
        self._move_next(source, table, id, unit)
        self._storage.delete_tree(self.folder.path(STAGING, _staging(unit), attempt))

    def _put(self, path: str, table: str, rows: Sequence[SideRow]) -> None:
        with tempfile.TemporaryDirectory(prefix="doom-rollouts-") as scratch:
            local = Path(scratch) / "side.spool"
            write_side(local, table, rows, local.name)
            self._storage.put_file(local, path)

    def _call_ids(self, paths: Iterable[str]) -> list[str]:
        return [row["call_id"] for row in read_side(self._storage, paths, ("call_id",))]

    def _mend(self, table: str, parts: Sequence[SidePart]) -> None:
        with ThreadPoolExecutor(READERS) as readers:
            whole = readers.map(self._is_whole, parts)
            torn = [part for part, is_whole in zip(parts, whole, strict=True) if not is_whole]
        for part in torn:
            inner = part.path.removeprefix(f"{self.folder.run_id}/").replace("/", "-")
            self._storage.move(part.path, self.folder.path(TORN, f"{inner}-{secrets.token_hex(4)}.torn"))
        there = {part.path for part in parts} - {part.path for part in torn}
        for path in sorted({path for part in parts for path in _up_to(part)} - there):
            self._put(path, table, ())

    def _is_whole(self, part: SidePart) -> bool:
        try:
            count_rows(self._storage, part.path)
        except TornShard:
            return False
        return True


def _staging(unit: int) -> str:
    """Beside the rollouts' own attempts, which their promotion clears away."""
    return f"side-{unit:07d}"


def _part_of(file: StoredFile) -> SidePart | None:
    match = _PART.fullmatch(file.name)
    return SidePart(file.path, int(match[1]), int(match[2]), file.bytes) if match else None


def _up_to(part: SidePart) -> list[str]:
    """The paths that a unit's parts have, up to this one."""
    folder = part.path.rpartition("/")[0]
    return [f"{folder}/{part_name(part.unit, k)}" for k in range(part.k + 1)]


def _spent(rows: Iterable[Mapping[str, Any]]) -> Spending:
    return sum(
        (Spending(r["tries"] or 0, (r["tokens_in"] or 0) + (r["tokens_out"] or 0), r["cost_usd"] or 0.0) for r in rows),
        start=Spending(),
    )
