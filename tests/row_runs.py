"""Committed runs for readers: shards of as many rows as a test says, each row's picture telling which row it is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollouts.evidence.committed_run import CommittedRun
from rollouts.frames import encode
from rollouts.records import Answer, Decision, Frame, PlannedEpisode, Unit, UnitReport
from rollouts.run.run_folder import RunFolder
from rollouts.shards.writing import StepWriter, write_episodes
from rollouts.store.storage import LocalStorage, Storage
from tests.shard_doubles import OPTIONS, RUN_ID, decision, episode, failure, provenance

ROOT = Path(__file__).resolve().parents[1]
PALETTE = np.random.default_rng(3).integers(0, 256, (256, 3), np.uint8)
HEIGHT, WIDTH = 12, 16
SIZES = (10, 7, 1)
Key = tuple[str, int]
"""(episode id, tick)."""


def picture(unit: int, tick: int) -> Frame:
    """Random palette indices, others for each row."""
    pixels = np.random.default_rng((unit, tick)).integers(0, 256, (HEIGHT, WIDTH), np.uint8)
    return Frame(pixels, PALETTE)


def planes(unit: int, tick: int) -> NDArray[np.uint8]:
    """(3, HEIGHT, WIDTH): what a reader must make of it."""
    return picture(unit, tick).rgb().transpose(2, 0, 1)


@dataclass(frozen=True)
class Shard:
    """A unit of one episode of `rows` decisions (None: it failed), with seed and group; by default its number's.

    `decide(tick)` makes the decisions; without `frames` rows have no picture.
    """

    rows: int | None
    seed: int | None = None
    policy: str = "oracle"
    scenario: str = "defend_the_center"
    decide: Callable[[int], Decision] = decision
    frame: Callable[[int, int], bytes | None] = lambda unit, tick: encode(picture(unit, tick), "png")


def row_run(
    out: Path | Storage, shards: Sequence[Shard | int] = SIZES, run_id: str = RUN_ID, owed: int = 0
) -> CommittedRun:
    """A run of one unit a shard, and `owed` units that were never played."""
    storage = LocalStorage(out) if isinstance(out, Path) else out
    some = [shard if isinstance(shard, Shard) else Shard(shard) for shard in (*shards, *[0] * owed)]
    plan = tuple(_unit(number, shard) for number, shard in enumerate(some))
    folder = RunFolder(storage, run_id)
    lease = folder.acquire()
    folder.create(lease, {"run_id": run_id}, plan)
    for unit, shard in zip(plan[: len(shards)], some, strict=False):
        assert folder.promote(lease, _stage(folder, unit, shard, lease.next_attempt()))
    folder.finish(lease)
    return CommittedRun.open(folder)


def large_run(out: Path, rows: int) -> str:
    """A run of frames of 100 KB, as large as any; what a user names it by."""
    noise = np.random.default_rng(5).integers(0, 256, (16, 150, 222, 3), np.uint8)
    frames = [encode(Frame(pixels), "png-rgb") for pixels in noise]
    shard = Shard(500, frame=lambda unit, tick: frames[(unit + tick) % 16])
    return place(row_run(out, [shard] * (rows // 500)))


def place(run: CommittedRun) -> str:
    """What a user names the run by."""
    return run.folder.describe()


def keys_of(run: CommittedRun, sizes: Sequence[int]) -> list[Key]:
    """All rows, in the order in which they lie there."""
    ids = [unit.keys()[0].episode_id for unit in run.plan]
    return [(ids[unit], tick) for unit, rows in enumerate(sizes) for tick in range(rows)]


def answering(actions: Sequence[str | None], **changes: Any) -> Callable[[int], Decision]:
    """Decisions whose policy answers so, tick by tick, and whose answers are sent."""
    return lambda tick: decision(tick, Answer(actions[tick], {}), effective_action=actions[tick], **changes)


def run_script(code: str, limit_s: float = 120.0, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python process of its own that must end by itself within `limit_s`; `variables` are its environment."""
    told = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **variables}
    with script(code) as path:
        words = [sys.executable, str(path)]
        return subprocess.run(words, env=told, capture_output=True, text=True, timeout=limit_s, check=False)


@contextmanager
def script(code: str) -> Iterator[Path]:
    """A file: a process that is spawned imports its parent's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(code)
        yield path


def _unit(number: int, shard: Shard) -> Unit:
    seed = number + 1 if shard.seed is None else shard.seed
    return Unit(number, shard.scenario, "rule", shard.policy, (PlannedEpisode(seed, 0),))


def _stage(folder: RunFolder, unit: Unit, shard: Shard, attempt: str) -> UnitReport:
    (key,) = unit.keys()
    with tempfile.TemporaryDirectory() as scratch:
        spool, episodes = Path(scratch) / "steps", Path(scratch) / "episodes"
        writer = StepWriter(spool, unit.part, folder.run_id, 4, OPTIONS)
        writer.begin(key)
        for tick in range(shard.rows or 0):
            writer.append(shard.decide(tick), shard.frame(unit.number, tick))
        writer.commit_episode()
        steps = writer.close()
        outcome = failure(key) if shard.rows is None else episode(key, shard.rows)
        file = write_episodes(episodes, [outcome], steps, provenance(unit))
        folder.stage(unit, attempt, spool if steps else None, episodes)
    failures = (("environment", "the floor is lava"),) if shard.rows is None else (None,)
    return UnitReport(unit.number, attempt, steps, file, steps.rows if steps else 0, 0, failures)
