"""An actor's own log: one JSON-lines file, each line with run, actor, and where known episode and seed.

Nothing that somebody needs may exist only in the driver's output. On a local path lines are appended as they come; an
object store cannot append, so there a file of this start's own is written whole again now and then, and followed by
another when long.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from rollouts.errors import StorageError
from rollouts.naming import slug
from rollouts.records import Episode, EpisodeFailure, EpisodeKey, SideReport, Unit, UnitReport
from rollouts.store.storage import LocalStorage, Storage

REWRITE_EVERY_S = 10.0
LINES_A_FILE = 5_000


class WorkerLog:
    """`logs/<actor>.jsonl` in the run's folder; threads may share it. What cannot be written stops no run."""

    def __init__(self, storage: Storage, run_id: str, actor: str, node: str) -> None:
        self._storage = storage
        self._name = f"{run_id}/logs/{slug(actor)}"
        self._started = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        self._files = 0
        self._who = {"run": run_id, "actor": actor, "node": node}
        self._lines: list[str] = []
        self._one_thread = threading.Lock()
        self._written_at = 0.0

    def episode(self, outcome: Episode | EpisodeFailure) -> None:
        line = _named(outcome.key)
        if isinstance(outcome, Episode):
            line |= {"status": "completed", outcome.metric_name: outcome.metric, "steps": outcome.steps}
            line |= {"n_out_of_schema": outcome.n_out_of_schema, "end_reason": outcome.end_reason}
        else:
            line |= {"status": "failed", "stage": outcome.stage, "cause": outcome.cause}
        self._add("episode", line)

    def unit(self, report: UnitReport) -> None:
        """Staged; whether it counts is the driver's to say. Lines reach the file here."""
        line = {"unit": report.unit, "attempt": report.attempt, "decisions": report.n_decisions}
        self._add("unit", line | {"engine_restarts": report.engine_restarts})
        self.flush(time.monotonic() - self._written_at > REWRITE_EVERY_S)

    def judged(self, stage: str, unit: Unit, report: SideReport) -> None:
        """Staged grades, summaries or credit: a line an episode."""
        for key, failure in zip(unit.keys(), report.failures, strict=True):
            line = {**_named(key), "stage": stage, "unit": unit.number, "attempt": report.attempt}
            self._add("judged", line | {"cause": None if failure is None else ": ".join(failure)})
        self.flush(time.monotonic() - self._written_at > REWRITE_EVERY_S)

    def remark(self, pool: str, text: str) -> None:
        """What people were told of a pool of workers."""
        self._add("remark", {"pool": pool, "text": text})
        self.flush()

    def error(self, unit: Unit, attempt: str, cause: str) -> None:
        """The unit's episodes and seeds, since one of them may be why."""
        line = {"unit": unit.number, "attempt": attempt, "cause": cause}
        episodes = [key.episode_id for key in unit.keys()]  # noqa: SIM118  no mapping
        self._add("error", line | {"episodes": episodes, "seeds": sorted({e.seed for e in unit.episodes})})
        self.flush()

    def flush(self, rewrite: bool = True) -> None:
        with self._one_thread, suppress(StorageError, OSError):
            if not self._lines:
                return
            if isinstance(self._storage, LocalStorage):
                self._append(self._storage.local_path(f"{self._name}.jsonl"))
            elif rewrite:
                self._rewrite()

    def _append(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(self._lines)
        self._lines.clear()

    def _rewrite(self) -> None:
        self._storage.write_bytes(f"{self._name}-{self._started}-{self._files}.jsonl", "".join(self._lines).encode())
        self._written_at = time.monotonic()
        if len(self._lines) >= LINES_A_FILE:
            self._files += 1
            self._lines.clear()

    def _add(self, event: str, fields: dict[str, object]) -> None:
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **self._who, "event": event, **fields}
        text = json.dumps(line, ensure_ascii=False) + "\n"
        with self._one_thread:
            self._lines.append(text)


def _named(key: EpisodeKey) -> dict[str, object]:
    return {"episode": key.episode_id, "seed": key.seed, "index": key.index}
