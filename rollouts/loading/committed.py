"""Which `steps` shards of a run count, and which of their episodes: by the plan and the `episodes` table alone.

Nothing is listed, so what else lies in the folders (torn, empty, foreign, temporary files) is never looked at.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from rollouts.errors import UsageError
from rollouts.naming import counted
from rollouts.plan import episode_ids, superseding
from rollouts.records import ShardFile, Unit
from rollouts.run.origin import Origin, read_origin
from rollouts.run.run_folder import RunFolder
from rollouts.shards.reading import Commit, TornShard, read_commit
from rollouts.shards.writing import shard_name
from rollouts.store.storage import Storage, open_storage

READERS = 8


@dataclass(frozen=True, eq=False, slots=True)
class OpenRun:
    """A run, or a merged set, as it was when it was opened: whose rows it holds, its units, what is committed of them.

    Who reads it several times reads the same rows, whatever is played meanwhile.
    """

    folder: RunFolder
    origin: Origin
    plan: tuple[Unit, ...]
    commits: Mapping[int, Commit]

    @property
    def name(self) -> str:
        """Where it lies."""
        return self.folder.describe()

    @property
    def shards(self) -> tuple[ShardFile, ...]:
        """Its committed `steps` shards."""
        return tuple(commit.steps for _, commit in sorted(self.commits.items()) if commit.steps)


def open_runs(folders: Iterable[RunFolder]) -> tuple[OpenRun, ...]:
    """Errors: `UsageError` where one is no run, or two have rows of one run (a copy, a merged set); `StorageError`."""
    runs = tuple(map(_open_run, folders))
    ids = Counter(run_id for run in runs for run_id in run.origin.records)
    for run_id in (run_id for run_id, n in ids.items() if n > 1):
        raise UsageError(f"two of the runs have the id {run_id}: their rows could not be told apart")
    return runs


def _open_run(folder: RunFolder) -> OpenRun:
    origin, plan = read_origin(folder), folder.read_plan()
    return OpenRun(folder, origin, plan, read_commits(folder, plan))


@dataclass(frozen=True, slots=True)
class StepsShard:
    """A committed unit's `steps` shard. `episodes` are the ids of those whose rows count; None: of all in it.

    `uri` and `path` say to any process where it lies.
    """

    uri: str
    path: str
    unit: int
    rows: int
    episodes: frozenset[str] | None

    @property
    def storage(self) -> Storage:
        return _storage(self.uri, os.getpid())

    def describe(self) -> str:
        return self.storage.describe(self.path)


@lru_cache(maxsize=64)
def _storage(uri: str, pid: int) -> Storage:  # noqa: ARG001  a forked process must not use its parent's connections
    return open_storage(uri)


def read_commits(folder: RunFolder, plan: Sequence[Unit]) -> dict[int, Commit]:
    """Unit number → what was committed of it. Whatever is damaged is left out, with a warning that names it.

    Errors: `StorageError`.
    """
    with ThreadPoolExecutor(READERS) as readers:
        found = dict(zip(plan, readers.map(lambda unit: _commit(folder, unit), plan), strict=True))
    damaged = [said for said in found.values() if isinstance(said, str)]
    if damaged:
        told = counted(len(damaged), "damaged unit")
        warnings.warn(f"{folder.describe()}: {told} left out: {damaged[0]}", stacklevel=2)
    return {unit.number: commit for unit, commit in found.items() if isinstance(commit, Commit)}


def committed_shards(run: OpenRun) -> dict[int, StepsShard]:
    """Unit number → its shard, in the plan's order; only where a row of it counts. In a merged set every row does: its
    episodes of one id are of different runs."""
    latest = {} if run.origin.merged else superseding(run.plan, run.commits.keys())
    shards = {}
    for unit in run.plan:
        commit = run.commits.get(unit.number)
        if commit is None or commit.steps is None:
            continue
        completed = set(episode_ids(unit)) - {failure.episode_id for failure in commit.failures}
        counted = frozenset(episode for episode in completed if run.origin.merged or latest[episode] == unit.number)
        if counted:
            path = run.folder.path("steps", commit.steps.name)
            episodes = None if counted == completed else counted
            shards[unit.number] = StepsShard(run.folder.storage.uri, path, unit.number, commit.steps.rows, episodes)
    return shards


def _commit(folder: RunFolder, unit: Unit) -> Commit | str | None:
    """None where the unit is owed; in words what is wrong where it is damaged."""
    path = folder.path("episodes", shard_name(unit.part))
    try:
        commit = read_commit(folder.storage, path, unit.number)
    except FileNotFoundError:
        return None
    except TornShard as error:
        return str(error)
    if commit.steps is None:
        return commit
    steps = folder.path("steps", commit.steps.name)
    size = folder.storage.size(steps)
    if size == commit.steps.bytes:
        return commit
    there = "is missing" if size is None else f"has {size} bytes, not {commit.steps.bytes}"
    return f"{folder.storage.describe(steps)} {there}"
