"""Made-up records with known values, a driver that plays them into a run folder, and storages that kill it."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rollouts.errors import LeaseError
from rollouts.plan import owed
from rollouts.records import (
    Answer,
    Decision,
    Episode,
    EpisodeFailure,
    EpisodeKey,
    PlannedEpisode,
    Snapshot,
    Thing,
    Transition,
    Unit,
    UnitReport,
)
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.shards.rows import Provenance
from rollouts.shards.writing import StepWriter, write_episodes
from rollouts.store.storage import LocalStorage, Storage, StoredFile

OPTIONS = ("attack", "turn left", "turn right")
NOON = datetime(2026, 1, 2, 12, 0, 0, 250, tzinfo=UTC)
RUN_ID = "made"
BROKEN_SEED = 13
"""Episodes of this seed fail, and of those that end in it."""


def decision(tick: int, answer: Answer | None = None, **changes: Any) -> Decision:
    """Decision `tick` of an episode in which nothing much happens."""
    values: dict[str, Any] = {
        "tick": tick,
        "state": f"Nothing is in view at decision {tick}.",
        "snapshot": Snapshot(
            4 * tick, health=100 - tick, ammo=26, kills=0, things=(Thing("Demon", "monster", 0.5, 0.2),)
        ),
        "teacher_action": "turn left",
        "answer": answer or Answer("turn left", {"turn left": 1.0, "attack": 0.0, "turn right": 0.0}, 1.0, 0.0),
        "effective_action": "turn left",
        "acted_by": "policy",
        "transition": Transition(0.25, None, health_after=99 - tick, ammo_after=26, kills_after=0),
        "terminated": False,
        "truncated": False,
        "decided_at": NOON + timedelta(milliseconds=tick),
    }
    return Decision(**values | changes)


def episode(key: EpisodeKey, steps: int = 3, **changes: Any) -> Episode:
    values: dict[str, Any] = {
        "key": key,
        "metric_name": "kills",
        "metric": float(key.seed % 5),
        "steps": steps,
        "total_reward": 0.25 * steps,
        "end_reason": "death",
        "terminated": True,
        "truncated": False,
        "out_of_schema_by_cause": {},
        "latency_ms_p50": 0.0,
        "latency_ms_p95": 0.0,
        "trajectory_hash": f"hash of {key.episode_id}",
        "frames_hash": None,
        "final_state": None,
        "final_frame": None,
        "started_at": NOON,
        "ended_at": NOON + timedelta(seconds=1),
    }
    return Episode(**values | changes)


def failure(key: EpisodeKey, cause: str = "the floor is lava") -> EpisodeFailure:
    return EpisodeFailure(key, "environment", cause, NOON, NOON)


def unit(number: int = 0, seeds: tuple[int, ...] = (1, 2), policy: str = "oracle") -> Unit:
    return Unit(number, "defend_the_center", "rule", policy, tuple(PlannedEpisode(seed, 0) for seed in seeds))


PLAN = (unit(0, (1, 2)), unit(1, (3, BROKEN_SEED)), unit(2, (1300 + BROKEN_SEED,)), unit(3, (5,)))


def is_broken(key: EpisodeKey) -> bool:
    return key.seed % 100 == BROKEN_SEED


def provenance(of: Unit, actor: str = "actor-0") -> Provenance:
    return Provenance(of, RUN_ID, tics=4, step_cap=300, actor=actor, node="here", versions={"vizdoom": "1.3.1"})


def play(of: Unit, scratch: Path, attempt: str) -> tuple[UnitReport, Path | None, Path]:
    """Write a unit's two files to `scratch`, as a worker does. Broken episodes leave two rows behind and fail."""
    writer = StepWriter(scratch / "steps.spool", of.part, RUN_ID, 4, OPTIONS)
    outcomes: list[Episode | EpisodeFailure] = []
    keys = of.keys()
    for key in keys:
        writer.begin(key)
        for tick in range(2 + key.seed % 3):
            writer.append(decision(tick))
        if is_broken(key):
            writer.discard_episode()
            outcomes.append(failure(key))
        else:
            writer.commit_episode()
            outcomes.append(episode(key, 2 + key.seed % 3))
    steps = writer.close()
    episodes = write_episodes(scratch / "episodes.spool", outcomes, steps, provenance(of, attempt))
    failures = tuple((o.stage, o.cause) if isinstance(o, EpisodeFailure) else None for o in outcomes)
    report = UnitReport(of.number, attempt, steps, episodes, steps.rows if steps else 0, 0, failures)
    return report, scratch / "steps.spool" if steps else None, scratch / "episodes.spool"


def stage(folder: RunFolder, of: Unit, attempt: str) -> UnitReport:
    with tempfile.TemporaryDirectory() as scratch:
        report, steps, episodes = play(of, Path(scratch), attempt)
        folder.stage(of, attempt, steps, episodes)
    return report


def start(folder: RunFolder, plan: tuple[Unit, ...] = PLAN) -> Lease:
    lease = folder.acquire()
    if not folder.started():
        folder.create(lease, {"run_id": RUN_ID}, plan)
    return lease


def drive(storage: Storage, plan: tuple[Unit, ...] = PLAN) -> int:
    """Do what is owed of a run, as a driver does; returns how many units it committed."""
    folder = RunFolder(storage, RUN_ID)
    lease = start(folder, plan)
    todo = owed(folder.read_plan(), folder.recover(lease).committed)
    for each in todo:
        assert folder.promote(lease, stage(folder, each, lease.next_attempt()))
    folder.finish(lease)
    return len(todo)


class StepStorage(LocalStorage):
    """Calls `at_step(number, name)` before and after each operation that changes something."""

    def __init__(self, root: Path, at_step: Callable[[int, str], None]) -> None:
        super().__init__(root)
        self._at_step = at_step
        self._step = 0

    @contextmanager
    def _around(self, name: str) -> Iterator[None]:
        self._say(f"before {name}")
        yield
        self._say(f"after {name}")

    def _say(self, name: str) -> None:
        self._at_step(self._step, name)
        self._step += 1

    def write_bytes(self, path: str, data: bytes) -> None:
        with self._around(f"write {path}"):
            super().write_bytes(path, data)

    def _put(self, path: str, data: bytes) -> None:
        """A process that dies in mid-write leaves half a file under a temporary name."""
        target = self.local_path(path)
        half = target.with_name(f".{target.name}.tmp-00000000")
        target.parent.mkdir(parents=True, exist_ok=True)
        half.write_bytes(data[: len(data) // 2])
        self._say(f"half of {path}")
        half.unlink()
        super()._put(path, data)

    def put_file(self, local: Path, path: str) -> None:
        with self._around(f"put {path}"):
            super().put_file(local, path)

    def move(self, source: str, target: str, overwrite: bool = False) -> None:
        with self._around(f"move {target}"):
            super().move(source, target, overwrite)

    def delete(self, path: str) -> None:
        with self._around(f"delete {path}"):
            super().delete(path)

    def delete_tree(self, path: str) -> None:
        with self._around(f"delete tree {path}"):
            super().delete_tree(path)


def drive_until(root: str, fatal_step: int) -> None:
    """A driver that kills itself at one step."""

    def die(step: int, _: str) -> None:
        if step == fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    drive(StepStorage(Path(root), die))


def drive_until_each(root: str, steps: list[int]) -> None:
    """A killed driver for each step, each in a folder of its own; fails unless all were killed."""
    for step in steps:
        if (pid := os.fork()) == 0:
            drive_until(f"{root}/{step}", step)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGKILL:
            raise AssertionError(f"step {step} was never reached")


def hold_lease(root: str) -> None:
    """A driver that takes the lease and dies."""
    RunFolder(LocalStorage(Path(root)), RUN_ID).acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def try_lease(root: str) -> None:
    """Exits with 3 where the lease is refused."""
    try:
        RunFolder(LocalStorage(Path(root)), RUN_ID).acquire()
    except LeaseError:
        os._exit(3)


def files_below(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def names(files: tuple[StoredFile, ...]) -> list[str]:
    return [file.name for file in files]
