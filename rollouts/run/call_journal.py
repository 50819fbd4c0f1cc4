"""Calls to models on file, one by one, from before they are sent: what a killed worker had paid for.

`.calls/<who>/<part>/<call id>.json` holds a row of `calls` until a committed shard has it: `abandoned` while the
request is under way, written over with what came of it once that is judged. No reader takes these files for shards. A
call's id is used by no other call of the run, so a row is never counted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from rollouts.errors import StorageError
from rollouts.records import Unit
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import is_temporary

JOURNAL = ".calls"
_TIMES = ("ended_at",)
_AT_ONCE = 8


class CallJournal:
    """The replies on file of the run `folder`. Errors of every method: `StorageError`."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def write(self, who: str, unit: Unit, row: Mapping[str, Any]) -> None:
        """Put one row here, whole, over what was known of that call."""
        text = json.dumps(row, default=datetime.isoformat)
        self._folder.storage.write_bytes(self._path(who, unit.part, f"{row['call_id']}.json"), text.encode())

    def read(self, who: str, unit: Unit) -> list[dict[str, Any]]:
        """The rows of a unit, in the order of their ids."""
        return self._read(file.path for file in self._folder.storage.list(self._path(who, unit.part)))

    def forget(self, who: str, unit: int, call_ids: Iterable[str]) -> None:
        """A committed shard has these rows now."""
        part = f"part-{unit:07d}"
        there = {file.name: file.path for file in self._folder.storage.list(self._path(who, part))}
        paths = [there[name] for name in (f"{call_id}.json" for call_id in call_ids) if name in there]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(self._folder.storage.delete, paths))

    def left(self) -> dict[tuple[str, int], list[dict[str, Any]]]:
        """(who, unit number) → rows, for all that is on file. Files of a killed writer are deleted."""
        storage, found = self._folder.storage, dict[tuple[str, int], list[dict[str, Any]]]()
        for file in storage.list(self._folder.path(JOURNAL), recursive=True):
            if is_temporary(file.name):
                storage.delete(file.path)
            else:
                who, part, _ = file.path.rsplit("/", 3)[1:]
                found.setdefault((who, int(part.removeprefix("part-"))), []).extend(self._read([file.path]))
        return found

    def clear(self) -> None:
        """Remove the folder once nothing is left in it."""
        path = self._folder.path(JOURNAL)
        if not self._folder.storage.list(path, recursive=True):
            self._folder.storage.delete_tree(path)

    def _path(self, *parts: str) -> str:
        return self._folder.path(JOURNAL, *parts)

    def _read(self, paths: Iterable[str]) -> list[dict[str, Any]]:
        return [row for path in paths if path.endswith(".json") for row in self._row(path)]

    def _row(self, path: str) -> list[dict[str, Any]]:
        try:
            row = self._folder.storage.read_json(path)
        except FileNotFoundError:  # a shard has it by now
            return []
        except ValueError as error:
            raise StorageError(f"{self._folder.storage.describe(path)} is not JSON: {error}") from error
        return [{**row, **{name: datetime.fromisoformat(row[name]) for name in _TIMES if row.get(name)}}]
