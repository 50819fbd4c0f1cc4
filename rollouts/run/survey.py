"""What a run folder holds, by its files alone: committed units, damage, and leftovers. Reads only.

A unit is committed when its `episodes` shard is whole and the `steps` shard that it names is there with its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rollouts.shards.reading import Commit, Failure, TornShard, read_commit
from rollouts.store.storage import Storage, StoredFile, is_temporary

READERS = 8
_PART = re.compile(r"part-(\d{7,})\.parquet")


@dataclass(frozen=True, slots=True)
class Survey:
    """`committed`: by unit number. `damaged`: path → what is wrong with it (torn, or nobody's shard).
    `orphans`: steps shards of planned units that were not committed. `temporary`: a killed writer's files."""

    committed: Mapping[int, Commit]
    damaged: Mapping[str, str]
    orphans: tuple[str, ...]
    temporary: tuple[str, ...]


def survey(storage: Storage, folder: str, planned: Collection[int]) -> Survey:
    """Look at the `steps` and `episodes` of a run whose plan has the units `planned`."""
    steps = {f.name: f for f in storage.list(f"{folder}/steps")}
    episodes = {f.name: f for f in storage.list(f"{folder}/episodes")}
    committed: dict[int, Commit] = {}
    damaged: dict[str, str] = {}
    shards = [file for file in episodes.values() if file.name.endswith(".parquet")]
    with ThreadPoolExecutor(READERS) as readers:
        for file, commit in zip(shards, readers.map(lambda f: _read(storage, f, steps, planned), shards), strict=True):
            if isinstance(commit, str):
                damaged[file.path] = commit
            else:
                committed[commit.unit] = commit
    kept = {commit.steps.name for commit in committed.values() if commit.steps}
    loose = [file for name, file in steps.items() if name.endswith(".parquet") and name not in kept]
    orphans = tuple(f.path for f in loose if _unit_of(f.name) in planned and f.name not in episodes)
    damaged |= {f.path: "no committed unit names it" for f in loose if f.path not in orphans}
    temporary = tuple(f.path for f in (*steps.values(), *episodes.values()) if is_temporary(f.name))
    return Survey(committed, damaged, orphans, temporary)


def failed_episodes(latest: Mapping[str, int], commits: Mapping[int, Commit]) -> dict[str, Failure]:
    """Of the episodes in `latest` (id → the unit whose row of it counts) those whose row is a failure."""
    return {f.episode_id: f for n, commit in commits.items() for f in commit.failures if latest.get(f.episode_id) == n}


def _read(
    storage: Storage, file: StoredFile, steps: Mapping[str, StoredFile], planned: Collection[int]
) -> Commit | str:
    """The commit of an `episodes` shard, or what is wrong with it."""
    unit = _unit_of(file.name)
    if unit is None or unit not in planned:
        return "it is not in the plan"
    try:
        commit = read_commit(storage, file.path, unit)
    except TornShard as error:
        return str(error)
    if commit.steps is None:
        return commit
    found = steps.get(commit.steps.name)
    if found is None or found.bytes != commit.steps.bytes:
        there = f"has {found.bytes} bytes" if found else "is missing"
        return f"its steps shard {commit.steps.name} {there}, not {commit.steps.bytes} bytes"
    return commit


def _unit_of(name: str) -> int | None:
    match = _PART.fullmatch(name)
    return int(match[1]) if match else None
