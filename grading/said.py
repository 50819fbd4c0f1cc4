"""People's feedback on a run's episodes: from rows of feedback to the run's table, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grading.feedback import KEYS, FeedbackRow
from rollouts.errors import UsageError
from rollouts.records import Unit
from rollouts.run.feedback_table import FeedbackTable
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.shards.side_rows import episode_columns

Said = Mapping[str, tuple[FeedbackRow, ...]]
"""Episode id → what was said of it, oldest first."""


def add_feedback(folder: RunFolder, lease: Lease, rows: Sequence[FeedbackRow], plan: Iterable[Unit]) -> int:
    """Store feedback; returns how many rows were new. Rows that are there already are not stored again.

    Errors: `UsageError` naming an episode that the run does not have; `LeaseError`, `StorageError`.
    """
    keys = {key.episode_id: key for unit in plan for key in unit.keys()}  # noqa: SIM118  a method of Unit
    unknown = [row.episode_id for row in rows if row.episode_id not in keys]
    if unknown:
        raise UsageError(f"feedback on {unknown[0]!r}: the run {folder.run_id} has no such episode")
    columns = [
        {**episode_columns(folder.run_id, keys[row.episode_id]), "source": "people", **_values(row)} for row in rows
    ]
    return FeedbackTable(folder).add(lease, columns)


def read_said(folder: RunFolder) -> Said:
    """All feedback of a run."""
    found: dict[str, list[FeedbackRow]] = {}
    for row in FeedbackTable(folder).read():
        found.setdefault(row["episode_id"], []).append(FeedbackRow(**{name: row[name] for name in KEYS}))
    return {key: tuple(sorted(rows, key=lambda row: row.time)) for key, rows in found.items()}


def said_sha256(rows: Sequence[FeedbackRow]) -> str | None:
    """What a grade was told, as one name; None where nobody said anything."""
    if not rows:
        return None
    text = json.dumps(sorted(json.dumps(_values(row), default=str, sort_keys=True) for row in rows))
    return hashlib.sha256(text.encode()).hexdigest()


def _values(row: FeedbackRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in KEYS}
