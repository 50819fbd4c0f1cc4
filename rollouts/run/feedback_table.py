"""What people said after episodes: `feedback/part-<n>.parquet` of a run. Only ever added to; equal rows once.

A torn part has no rows. It is set aside with the side tables' own (rollouts/run/side_survey.py); nobody can make it
again but who gave it, and giving the file once more adds what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rollouts.records import ShardFile
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.scratch import ScratchFolder
from rollouts.shards.reading import TornShard, count_rows
from rollouts.shards.side_rows import SideRow, read_side, write_side
from rollouts.store.storage import is_temporary

FEEDBACK = "feedback"
_PART = re.compile(r"part-(\d{7,})\.parquet")


class FeedbackTable:
    """The feedback on the episodes of the run `folder`. Errors of every method: `StorageError`."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def read(self) -> list[dict[str, Any]]:
        """All rows, in the order in which they were handed in."""
        return read_side(self._folder.storage, self.parts())

    def add(self, lease: Lease, rows: Sequence[SideRow]) -> int:
        """Add the rows that are not there yet, as one part; returns how many. Errors: `LeaseError`."""
        with lease.held():
            there = {_said(row) for row in self.read()}
            fresh = list({_said(row): row for row in rows if _said(row) not in there}.values())
            if fresh:
                self._write(f"part-{self._next():07d}.parquet", fresh)
        return len(fresh)

    def shards(self) -> tuple[ShardFile, ...]:
        """Every part with its rows, bytes and sha256, read anew."""
        storage = self._folder.storage
        return tuple(
            ShardFile(path.rpartition("/")[2], count_rows(storage, path), storage.size(path) or 0, storage.sha256(path))
            for path in self.parts()
        )

    def parts(self) -> list[str]:
        """The paths of the whole parts, in order."""
        torn = self.torn()
        return [path for path in self._all() if path not in torn]

    def torn(self) -> dict[str, str]:
        """Path → what is wrong with it, of the parts that are no whole files."""
        found = ((path, self._fault(path)) for path in self._all())
        return {path: fault for path, fault in found if fault is not None}

    def _fault(self, path: str) -> str | None:
        try:
            count_rows(self._folder.storage, path)
        except TornShard as error:
            return str(error)
        return None

    def _next(self) -> int:
        """Above every number that is taken: an earlier part may have been set aside."""
        taken = [_PART.fullmatch(path.rpartition("/")[2]) for path in self._all()]
        return 1 + max((int(match[1]) for match in taken if match), default=-1)

    def _write(self, name: str, rows: Sequence[SideRow]) -> None:
        with ScratchFolder("feedback") as scratch:
            local = scratch / name
            write_side(local, FEEDBACK, rows, name)
            self._folder.storage.put_file(local, self._folder.path(FEEDBACK, name))

    def _all(self) -> list[str]:
        files = self._folder.storage.list(self._folder.path(FEEDBACK))
        return [file.path for file in files if file.name.endswith(".parquet") and not is_temporary(file.name)]


def _said(row: SideRow) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("episode_id", "channel", "polarity", "magnitude", "text", "time"))
