"""The last lines of a run's logs: what it was at, without reading the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from rollouts.run.run_folder import RunFolder
from rollouts.settings import one_line
from rollouts.store.storage import StoredFile

FILES, TAIL_BYTES, LINES = 8, 4_096, 5
_HEAD = ("at", "run", "actor", "node", "event")


def last_log_lines(folder: RunFolder, lines: int = LINES) -> tuple[dict[str, Any], ...]:
    """The newest of the lines at the ends of those logs that were written to last, oldest first."""
    logs = [file for file in folder.storage.list(folder.path("logs")) if file.name.endswith(".jsonl")]
    newest = sorted(logs, key=lambda file: file.changed_s)[-FILES:]
    found = [line for file in newest for line in _tail(folder, file)]
    return tuple(sorted(found, key=lambda line: line["at"])[-lines:])


def log_line(line: Mapping[str, Any]) -> str:
    """For people: time, actor, event, and what else the line says."""
    told = " ".join(f"{name}={value}" for name, value in line.items() if name not in _HEAD and value is not None)
    return one_line(f"{line['at']} {line.get('actor')} {line.get('event')} {told}", 240)


def _tail(folder: RunFolder, file: StoredFile) -> Iterator[dict[str, Any]]:
    """The whole lines among the last bytes of a file; one that is being written as we look may be cut."""
    with suppress(FileNotFoundError), folder.storage.open_input(file.path) as source:
        size = source.size()
        source.seek(max(0, size - TAIL_BYTES))
        for text in source.read().split(b"\n"):
            with suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict) and isinstance(line.get("at"), str):
                    yield line
