"""Side tables with known rows, written as real ones are: what a report says of them is counted by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollouts.evidence.committed_run import CommittedRun
from rollouts.records import SideReport, SideShard, Unit
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_tables import part_name
from rollouts.shards.side_rows import episode_columns, write_side

Row = Mapping[str, Any]


def episode(run: CommittedRun, seed: int) -> dict[str, Any]:
    """The key columns of the made run's episode of policy `half` with this seed."""
    keys = [key for unit in run.units() for key in tuple(Unit.keys(unit))]
    key = next(key for key in keys if key.seed == seed and key.policy == "half")
    return episode_columns(run.folder.run_id, key)


def commit_rows(run: CommittedRun, table: str, id: str, identity: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Commit `rows` to a side table, those of one unit in one part, under a lease of their own."""
    side, lease = SideFolder(run.folder), run.folder.acquire()
    side.declare(lease, table, id, identity)
    by_unit: dict[int, list[Row]] = {}
    for row in rows:
        by_unit.setdefault(run.latest[row["episode_id"]], []).append(row)
    for unit in (unit for unit in run.units() if unit.number in by_unit):
        attempt = lease.next_attempt()
        name = part_name(unit.number, len(side.parts(table, id, unit)))
        with tempfile.TemporaryDirectory() as scratch:
            file = write_side(Path(scratch) / "rows", table, by_unit[unit.number], name)
            side.stage(unit, attempt, table, id, Path(scratch) / "rows")
        side.promote(lease, SideReport(unit.number, attempt, (SideShard(table, id, file),), ()))
    run.folder.finish(lease)


def grade(run: CommittedRun, seed: int, source: str, axes: Sequence[float] | None, **others: Any) -> Row:
    """A row of `grades`; `axes` are goal, process and satisfaction, None for an ungraded one."""
    names = ("goal_achievement", "process_quality", "user_satisfaction")
    told = {} if axes is None else dict(zip(names, axes, strict=True))
    status = "ungraded" if axes is None else "graded"
    return {**episode(run, seed), "grading": 0, "repeat": 0, "source": source, "status": status, **told, **others}
