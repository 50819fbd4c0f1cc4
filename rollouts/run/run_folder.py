"""One run's folder: its start files, the private attempts of workers, and the commits of the one driver.

A worker puts finished files under `.staging/<part>/<attempt>/`, under names that no reader takes for shards. The driver
that holds the lease promotes them: the `steps` shard first, then the `episodes` shard, whose presence commits the
unit. So a process may be killed at any point: what is not committed is owed, and an attempt that nobody promotes
changes nothing.

    folder = RunFolder(open_storage(out), run_id)
    lease = folder.acquire()                             # driver
    if not folder.started(): folder.create(record, units)
    recovered = folder.recover(lease)                    # .committed
    folder.stage(unit, attempt, steps, episodes)         # worker; the attempt's name is from lease.next_attempt()
    folder.promote(lease, report)                        # driver
    folder.finish(lease)
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollouts.errors import StorageError, TryVoid, UsageError
from rollouts.records import Unit, UnitReport
from rollouts.run.lease import Lease, acquire_lease
from rollouts.run.survey import Survey, survey
from rollouts.scratch import ScratchFolder
from rollouts.shards.reading import read_plan
from rollouts.shards.writing import shard_name, write_plan
from rollouts.store.storage import Storage, is_temporary

STAGING = ".staging"
TORN = f"{STAGING}/torn"
_PROMOTION_LOCKS = 64
_PLAN_FILE = re.compile(r"(\d{7,})\.parquet")


class RunFolder:
    """The run `run_id` below the root of `storage`. Errors of every method: `StorageError`."""

    def __init__(self, storage: Storage, run_id: str) -> None:
        self.storage = storage
        self.run_id = run_id
        self._promoting = tuple(threading.Lock() for _ in range(_PROMOTION_LOCKS))

    def path(self, *parts: str) -> str:
        """A path inside the run, as `storage` wants it."""
        return "/".join((self.run_id, *parts))

    def describe(self, *parts: str) -> str:
        return self.storage.describe(self.path(*parts))

    def acquire(self) -> Lease:
        """Become the run's one driver. Errors: `LeaseError` naming who is."""
        return acquire_lease(self.storage, self.run_id)

    def started(self) -> bool:
        """Was the run ever started? `run.json` is the last of the start files."""
        return self.storage.exists(self.path("run.json"))

    def create(self, lease: Lease, record: Mapping[str, Any], units: Sequence[Unit]) -> None:
        """Write the plan, then `run.json`. Errors: `UsageError` where shards lie here that no run accounts for."""
        lease.check()
        if self.storage.list(self.path("episodes")):
            raise UsageError(f"{self.describe()} holds shards but no run.json: move it away or choose another run id")
        for file in self.storage.list(self.path("plan")):
            self.storage.delete(file.path)
        self.grow(lease, record, units)

    def grow(self, lease: Lease, record: Mapping[str, Any], units: Sequence[Unit]) -> None:
        """Append `units` to the plan, then write `run.json` again."""
        with lease.held():
            if units:
                self._append_plan(units)
            self.storage.write_bytes(self.path("run.json"), json.dumps(record, indent=1, ensure_ascii=False).encode())

    def read_record(self) -> dict[str, Any]:
        """What `run.json` says. Errors: `UsageError` where there is no run, or its record cannot be read."""
        try:
            record: dict[str, Any] = self.storage.read_json(self.path("run.json"))
        except FileNotFoundError:
            raise UsageError(f"there is no run in {self.describe()}") from None
        except ValueError as error:
            raise UsageError(f"{self.describe('run.json')} is not JSON: {error}") from error
        return record

    def read_own_record(self) -> dict[str, Any]:
        """`read_record`, for who is to add rows, which carry the folder's name. Errors: `UsageError`, also where that
        is not the run's."""
        record = self.read_record()
        if record["run_id"] != self.run_id:
            own = record["run_id"]
            raise UsageError(
                f"{self.describe()} holds the run {own}, and rows that are added to it would carry another id: give "
                "the folder that name again"
            )
        return record

    def read_plan(self) -> tuple[Unit, ...]:
        """All units, in order. Errors: `StorageError` where the plan is damaged."""
        units = tuple(unit for path in self._plan_files() for unit in read_plan(self.storage, path))
        if [unit.number for unit in units] != list(range(len(units))):
            raise StorageError(f"the plan in {self.describe('plan')} is damaged: its units are not numbered in order")
        return units

    def stage(self, unit: Unit, attempt: str, steps: Path | None, episodes: Path) -> None:
        """Put an attempt's finished files here, whole and private. The local files may be moved away."""
        if steps is not None:
            self.storage.put_file(steps, self._staged(unit.part, attempt, "steps"))
        self.storage.put_file(episodes, self._staged(unit.part, attempt, "episodes"))

    def promote(self, lease: Lease, report: UnitReport) -> bool:
        """Commit a unit; False where it is committed already (then nothing changes). Threads may promote at once.

        Errors: `LeaseError` where the run is another driver's now; `TryVoid` where the attempt cannot count (files
        missing or cut off, or of another driver's time): play the unit again.
        """
        part = report.episodes.name.removesuffix(".parquet")
        with self._promoting[report.unit % _PROMOTION_LOCKS], lease.held():
            committed = self.storage.exists(self.path("episodes", report.episodes.name))
            if not committed:
                self._check_attempt(lease, part, report)
                self._move(part, report)
        self.storage.delete_tree(self.path(STAGING, part, report.attempt))
        return not committed

    def survey(self) -> Survey:
        """What is committed, and what is wrong. Reads only."""
        return survey(self.storage, self.run_id, {unit.number for unit in self.read_plan()})

    def recover(self, lease: Lease) -> Survey:
        """Put the folder in order before work goes on, and say what is committed.

        Leftovers of killed processes are deleted; damaged shards are set aside in `.staging/torn`, their units owed.
        """
        with lease.held():
            found = self.survey()
            for path in (*found.orphans, *found.temporary, *self._temporary()):
                self.storage.delete(path)
            for path in found.damaged:
                self.set_aside(path)
            self.clear_staging()
        return found

    def is_tidy(self) -> bool:
        """Is there nothing private that a process that was killed left, apart from the tables'? Reads only."""
        if self._private() or self._temporary():
            return False
        return not self.storage.has_folder(self.path(STAGING)) or bool(self.storage.list(self.path(TORN)))

    def clear_staging(self) -> None:
        """Delete every attempt's files. What was set aside stays."""
        if not self.storage.list(self.path(TORN)):
            self.storage.delete_tree(self.path(STAGING))
        for path in self._private():
            self.storage.delete(path)

    def finish(self, lease: Lease) -> None:
        """Leave no private files, and let the next driver in at once.

        Errors: `LeaseError` where the run is another driver's by now; its files stay as they are.
        """
        with lease.held():
            self.clear_staging()
        lease.release()

    def write_marker(self) -> str:
        """Write a file that every node must see before the first episode; returns its name."""
        marker = f"marker-{secrets.token_hex(8)}"
        self.storage.write_bytes(self.path(STAGING, marker), marker.encode())
        return marker

    def sees_marker(self, marker: str) -> bool:
        """Is this the folder that the driver wrote the marker to?"""
        return self.storage.exists(self.path(STAGING, marker))

    def _staged(self, part: str, attempt: str, table: str) -> str:
        return self.path(STAGING, part, attempt, f"{table}.staged")

    def _check_attempt(self, lease: Lease, part: str, report: UnitReport) -> None:
        if not report.attempt.startswith(lease.attempt_prefix):
            raise TryVoid(f"attempt {report.attempt} at {part} belongs to another driver's time")
        for table, shard in (("steps", report.steps), ("episodes", report.episodes)):
            found = self.storage.size(self._staged(part, report.attempt, table)) if shard else None
            if shard and found != shard.bytes:
                there = "are missing" if found is None else f"have {found} bytes, not {shard.bytes}"
                raise TryVoid(f"the {table} that attempt {report.attempt} staged for {part} {there}")

    def _move(self, part: str, report: UnitReport) -> None:
        """Steps first. What lies under the name of an uncommitted unit's steps is a killed driver's."""
        steps = self.path("steps", shard_name(part))
        if report.steps is not None:
            self.storage.move(self._staged(part, report.attempt, "steps"), steps, overwrite=True)
        else:
            self.storage.delete(steps)
        episodes = self.path("episodes", report.episodes.name)
        self.storage.move(self._staged(part, report.attempt, "episodes"), episodes)

    def set_aside(self, path: str) -> None:
        """Under a name that no reader takes for a shard."""
        inner = path.removeprefix(f"{self.run_id}/").replace("/", "-")
        self.storage.move(path, self.path(TORN, f"{inner}-{secrets.token_hex(4)}.torn"), overwrite=True)

    def _private(self) -> list[str]:
        files = self.storage.list(self.path(STAGING), recursive=True)
        return [file.path for file in files if not file.path.startswith(self.path(TORN))]

    def _temporary(self) -> list[str]:
        files = (*self.storage.list(self.run_id), *self.storage.list(self.path("plan")))
        return [file.path for file in files if is_temporary(file.name)]

    def _plan_files(self) -> list[str]:
        files = self.storage.list(self.path("plan"))
        return [file.path for file in files if _PLAN_FILE.fullmatch(file.name)]

    def _append_plan(self, units: Sequence[Unit]) -> None:
        name = f"{len(self._plan_files()):07d}.parquet"
        with ScratchFolder("plan") as scratch:
            local = scratch / name
            write_plan(local, units)
            self.storage.put_file(local, self.path("plan", name))
