"""People's feedback on a run's episodes: from rows of feedback to the run's table, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from grading.feedback import KEYS, FeedbackRow
from rollouts.errors import UsageError
from rollouts.records import EpisodeKey, Unit
from rollouts.run.feedback_table import FeedbackTable
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.shards.side_rows import episode_columns

Said = Mapping[str, tuple[FeedbackRow, ...]]
"""Episode id → what was said of it, oldest first."""
_ANY_TIME = datetime.min.replace(tzinfo=UTC)


def add_feedback(folder: RunFolder, lease: Lease, rows: Sequence[FeedbackRow], plan: Iterable[Unit]) -> int:
    """Store feedback; returns how many rows were new. Rows that are there already are not stored again.

    Errors: `UsageError` naming an episode that the run does not have; `LeaseError`, `StorageError`.
    """
    keys = _keys(folder, rows, plan)
    columns = [
        {**episode_columns(folder.run_id, keys[row.episode_id]), "source": "people", **_values(row)}
        for row in fresh_rows(rows, _stored(folder))
    ]
    return FeedbackTable(folder).add(lease, columns)


def read_said(folder: RunFolder) -> Said:
    """All feedback of a run."""
    return _by_episode(_stored(folder))


def said_with(folder: RunFolder, rows: Sequence[FeedbackRow], plan: Iterable[Unit]) -> Said:
    """All feedback of a run as it will be once `rows` are stored. Errors: as `add_feedback`."""
    _keys(folder, rows, plan)
    stored = _stored(folder)
    return _by_episode([*stored, *fresh_rows(rows, stored)])


def fresh_rows(rows: Iterable[FeedbackRow], stored: Iterable[FeedbackRow]) -> list[FeedbackRow]:
    """The rows that are not `stored` yet, each once.

    One without a date of its own is stored already where the same was said of the episode, whenever that was: its time
    is only that of the file it came in, and a copy of the file has another one.
    """
    there = set(stored)
    words = {_words(row) for row in there}
    found: list[FeedbackRow] = []
    for row in rows:
        if row not in there and (row.dated or _words(row) not in words):
            there.add(row)
            words.add(_words(row))
            found.append(row)
    return found


def _keys(folder: RunFolder, rows: Iterable[FeedbackRow], plan: Iterable[Unit]) -> dict[str, EpisodeKey]:
    """Every episode of the plan, by id. Errors: `UsageError` where a row is about none of them."""
    keys = {key.episode_id: key for unit in plan for key in unit.keys()}  # noqa: SIM118  a method of Unit
    unknown = [row.episode_id for row in rows if row.episode_id not in keys]
    if unknown:
        raise UsageError(f"feedback on {unknown[0]!r}: the run {folder.run_id} has no such episode")
    return keys


def _stored(folder: RunFolder) -> list[FeedbackRow]:
    """In the order in which it was handed in."""
    return [FeedbackRow(**{name: row[name] for name in KEYS}) for row in FeedbackTable(folder).read()]


def _by_episode(rows: Iterable[FeedbackRow]) -> Said:
    found: dict[str, list[FeedbackRow]] = {}
    for row in rows:
        found.setdefault(row.episode_id, []).append(row)
    return {key: tuple(sorted(said, key=lambda row: row.time)) for key, said in found.items()}


def _words(row: FeedbackRow) -> FeedbackRow:
    """What was said, whenever."""
    return replace(row, time=_ANY_TIME)


def said_sha256(rows: Sequence[FeedbackRow]) -> str | None:
    """What a grade was told, as one name; None where nobody said anything."""
    if not rows:
        return None
    text = json.dumps(sorted(json.dumps(_values(row), default=str, sort_keys=True) for row in rows))
    return hashlib.sha256(text.encode()).hexdigest()


def _values(row: FeedbackRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in KEYS}
