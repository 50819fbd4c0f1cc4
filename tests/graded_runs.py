"""Small runs that are graded and summarized on a fake endpoint while they are played, as the command does it."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from grading.pipeline import SideOutcome
from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.commands.playing import Played, play, start
from rollouts.commands.pools import Place
from rollouts.commands.preparing import Prepared, prepare
from rollouts.config import load_configs
from rollouts.progress import Counts, JsonReporter
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

DOOM = {"scenarios": "defend_the_center", "policies": "random", "frames": "none", "seeds": "0:32", "step_cap": "40"}
COUNTING = {"scenarios": "tests.doubles:COUNTING", "policies": "random", "frames": "none", "seeds": "1:33"}
JUDGED = {"grade": "llm", "grader_model": "judge", "summarize": "llm", "summarizer_model": "scribe"}


class Listener(JsonReporter):
    """Keeps the notes, and hands on each count as it comes."""

    def __init__(self, on_counts: Callable[[Counts], None]) -> None:
        super().__init__(io.StringIO())
        self.notes: list[str] = []
        self._on_counts = on_counts

    def counts(self, counts: Counts) -> None:
        self._on_counts(counts)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass(frozen=True)
class GradedRun:
    """A run that has ended, for now, after `seconds`."""

    folder: RunFolder
    played: Played
    notes: list[str]
    seconds: float

    @property
    def side(self) -> SideOutcome:
        assert self.played.side is not None
        return self.played.side

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Every committed row of a side table, of all its ids."""
        return rows_of(Path(self.folder.describe()), table)


@dataclass(frozen=True)
class Wished:
    """Settings as flags would give them, by name; `place` is left open where there is one."""

    out: Path
    fake: FakeEndpoint
    settings: dict[str, str] = field(default_factory=dict)
    place: Place | None = None

    def prepare(self) -> Prepared:
        given = {**JUDGED, "base_url": self.fake.base_url, "out": str(self.out), **self.settings}
        settings, grading = load_configs(given, None, {})
        return prepare(settings, open_storage(self.out), grading=grading)


def rows_of(run: Path, table: str) -> list[dict[str, Any]]:
    files = sorted(str(path) for path in (run / table).glob("*/part-*.parquet"))
    rows: list[dict[str, Any]] = ds.dataset(files).to_table().to_pylist() if files else []
    return rows


def graded(wished: Wished, on_counts: Callable[[Counts], None] = lambda _counts: None) -> GradedRun:
    """Play and grade what is owed."""
    run, reporter = wished.prepare(), Listener(on_counts)
    with Signals() as signals, nullcontext(wished.place) if wished.place else Place(run.config.pool) as place:
        lease = run.folder.acquire()
        ready = start(run, lease)
        pool = place.rollout_pool(run, signals) if ready.standing.owed else None
        begun = time.monotonic()
        try:
            played = play(ready, pool, reporter, signals, place)
        finally:
            SideFolder(run.folder).gather(lease)
            run.folder.finish(lease)
        return GradedRun(run.folder, played, reporter.notes, time.monotonic() - begun)
