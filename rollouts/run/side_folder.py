"""The side tables of a run: private attempts, and the commits of the one driver.

`<table>/<id>/part-<unit>-<k>.parquet` beside `<table>/<id>.json`, the whole text behind the id. A side table is only
ever added to: a unit's parts are numbered from 0 without a gap. A task names the part it was made for; if another one
has come in between, the task counts for nothing. Calls are promoted before what was made of them.

    side = SideFolder(run_folder)
    side.recover(lease, recovered.committed)            # driver, after recovered = run_folder.recover(lease)
    side.declare(lease, "grades", grader_id, identity)  # driver, before the first unit is sent
    side.ask(lease, grader_id, repeats)
    side.stage(unit, attempt, "grades", grader_id, local)   # worker
    side.promote(lease, report)                         # driver
    side.gather(lease)                                  # driver, at the end
"""

from __future__ import annotations

import itertools
import json
import secrets
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rollouts.errors import TryVoid, UsageError
from rollouts.records import SideReport, SideShard, Unit
from rollouts.run.call_journal import CallJournal
from rollouts.run.lease import Lease
from rollouts.run.run_folder import STAGING, RunFolder
from rollouts.run.side_survey import SideSurvey, survey_sides
from rollouts.run.side_tables import ASKED, CALLS, ENDPOINTS, SIDE_TABLES, SidePart, SideTables, part_name
from rollouts.scratch import ScratchFolder
from rollouts.shards.reading import Commit
from rollouts.shards.side_rows import SideRow, read_side, write_side
from rollouts.store.storage import is_temporary

_LOCKS = 64


class SideFolder(SideTables):
    """Commits to the side tables of the run `folder`, and reads them. Errors of every method: `StorageError`."""

    def __init__(self, folder: RunFolder, without: Collection[str] = ()) -> None:
        super().__init__(folder, without)
        self.journal = CallJournal(folder)
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

    def ask(self, lease: Lease, grader_id: str, repeats: int) -> None:
        """Note that so many gradings of each episode are wanted of a grader. Errors: `LeaseError`."""
        if repeats > self.asked(grader_id):
            with lease.held():
                path = self.folder.path("grades", grader_id, ASKED)
                self._storage.write_bytes(path, json.dumps({"repeats": repeats}).encode())

    def note_endpoint(self, lease: Lease, who: str, base_url: str) -> tuple[str, ...]:
        """Note where the calls of `who` go from now on; returns where else they went before. Errors: `LeaseError`."""
        known = self.endpoints(who)
        if base_url not in known:
            with lease.held():
                text = json.dumps({"base_urls": [*known, base_url]})
                self._storage.write_bytes(self.folder.path(CALLS, who, ENDPOINTS), text.encode())
        return tuple(url for url in known if url != base_url)

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

    def recover(self, lease: Lease, commits: Mapping[int, Commit]) -> SideSurvey:
        """Put the side tables in order, of a run of which `commits` are committed, and say what did not count: it is
        set aside and owed again. Replies on file that no shard has are gathered.

        What was made from a part goes before that part, so that a driver that is killed meanwhile leaves nothing that
        looks right. Where a higher part stays an empty one takes the lower's place: numbers have no gap.
        """
        with lease.held():
            for table in SIDE_TABLES:
                for file in self._storage.list(self.folder.path(table), recursive=True):
                    if is_temporary(file.name):
                        self._storage.delete(file.path)
            found = survey_sides(self.folder, commits)
            for path in found.unfit:
                self.folder.set_aside(path)
            self._fill_gaps()
        self.gather(lease)
        return found

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
        with ScratchFolder("side") as scratch:
            local = scratch / "side.spool"
            write_side(local, table, rows, local.name)
            self._storage.put_file(local, path)

    def _call_ids(self, paths: Iterable[str]) -> list[str]:
        return [row["call_id"] for row in read_side(self._storage, paths, ("call_id",))]

    def _fill_gaps(self) -> None:
        for table, id in self.tables():
            parts = self.all_parts(table, id)
            for path in sorted({path for part in parts for path in _up_to(part)} - {part.path for part in parts}):
                self._put(path, table, ())


def _staging(unit: int) -> str:
    """Beside the rollouts' own attempts, which their promotion clears away."""
    return f"side-{unit:07d}"


def _up_to(part: SidePart) -> list[str]:
    """The paths that a unit's parts have, up to this one."""
    folder = part.path.rpartition("/")[0]
    return [f"{folder}/{part_name(part.unit, k)}" for k in range(part.k + 1)]
