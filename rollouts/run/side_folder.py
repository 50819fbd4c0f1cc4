"""The side tables of a run: what is known of each (table, id), private attempts, and the commits of the one driver.

`<table>/<id>/part-<unit>-<k>.parquet` beside `<table>/<id>.json`, the whole text behind the id. A side table is only
ever added to: a unit's parts are numbered from 0 without a gap.

    side = SideFolder(run_folder)
    side.recover(lease)                                 # driver, after run_folder.recover(lease)
    side.declare(lease, "grades", grader_id, identity)  # driver, before the first unit is sent
    side.stage(unit, attempt, "grades", grader_id, local)   # worker
    side.promote(lease, report)                         # driver
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollouts.calls.limits import Spending
from rollouts.records import ShardFile, SideReport, Unit
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder

SIDE_TABLES = ("grades", "summaries", "credit", "calls")


class SideFolder:
    """The side tables of the run `folder`. Errors of every method: `StorageError`."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def declare(self, lease: Lease, table: str, id: str, identity: Mapping[str, Any]) -> None:
        """Write the text behind an id, unless it is there. Errors: `LeaseError`; `UsageError`: another is there."""
        raise NotImplementedError

    def ids(self, table: str) -> tuple[str, ...]:
        """All that were ever declared, by name."""
        raise NotImplementedError

    def read_identity(self, table: str, id: str) -> dict[str, Any]:
        raise NotImplementedError

    def parts(self, table: str, id: str, unit: Unit) -> tuple[str, ...]:
        """The paths of a unit's committed parts, in order."""
        raise NotImplementedError

    def stage(self, unit: Unit, attempt: str, table: str, id: str, local: Path) -> None:
        """Put a finished file here, whole and private; `local` may be moved away."""
        raise NotImplementedError

    def promote(self, lease: Lease, report: SideReport) -> bool:
        """Commit what a task has staged; False where it staged nothing. Threads may promote at once.

        Errors: `LeaseError`; `TryVoid` where the attempt cannot count (files missing or cut off, of another driver's
        time, or the unit has got further parts since it began): nothing is committed then, do the unit again.
        """
        raise NotImplementedError

    def recover(self, lease: Lease) -> None:
        """Put the side tables in order: damaged parts are set aside, replies on file that no shard has are gathered."""
        raise NotImplementedError

    def gather(self, lease: Lease) -> None:
        """Move replies that are on file one by one into shards of `calls`. Done by `recover`, and to be done last."""
        raise NotImplementedError

    def spent(self) -> Spending:
        """What all calls of the run have cost up to now: the budget's memory (after `recover`)."""
        raise NotImplementedError

    def shards(self, table: str, id: str) -> tuple[ShardFile, ...]:
        """Every committed part with rows, bytes and sha256, read anew."""
        raise NotImplementedError
