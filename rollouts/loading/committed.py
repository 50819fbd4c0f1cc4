"""Which `steps` shards of a run count, and which of their episodes: by the plan and the `episodes` table alone.

Nothing is listed, so what else lies in the folders (torn, empty, foreign, temporary files) is never looked at.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from rollouts.plan import episode_ids, superseding
from rollouts.records import Unit
from rollouts.run.run_folder import RunFolder
from rollouts.shards.reading import Commit, TornShard, read_commit
from rollouts.shards.writing import shard_name
from rollouts.store.storage import Storage, open_storage

READERS = 8


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
        warnings.warn(f"{folder.describe()}: {len(damaged)} damaged units are left out: {damaged[0]}", stacklevel=2)
    return {unit.number: commit for unit, commit in found.items() if isinstance(commit, Commit)}


def committed_shards(
    folder: RunFolder, plan: Sequence[Unit], commits: Mapping[int, Commit], merged: bool = False
) -> dict[int, StepsShard]:
    """Unit number → its shard, in the plan's order; only where a row of it counts. In a merged set every row does: its
    episodes of one id are of different runs."""
    latest = {} if merged else superseding(plan, commits.keys())
    shards = {}
    for unit in plan:
        commit = commits.get(unit.number)
        if commit is None or commit.steps is None:
            continue
        completed = set(episode_ids(unit)) - {failure.episode_id for failure in commit.failures}
        counted = frozenset(episode for episode in completed if merged or latest[episode] == unit.number)
        if counted:
            path = folder.path("steps", commit.steps.name)
            episodes = None if counted == completed else counted
            shards[unit.number] = StepsShard(folder.storage.uri, path, unit.number, commit.steps.rows, episodes)
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
