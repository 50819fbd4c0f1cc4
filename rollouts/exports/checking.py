"""Does an export still hold what its `export.json` says? What it finds is sentences, as rollouts/evidence/verify.py
does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.exports.card import PROVENANCE
from rollouts.records import Unit
from rollouts.run.origin import MERGED, read_origin
from rollouts.run.run_folder import RunFolder
from rollouts.shards.reading import read_table
from rollouts.shards.writing import shard_name

Key = tuple[str, str]
"""(run id, episode id)."""


def is_export(folder: RunFolder) -> bool:
    return folder.storage.exists(folder.path(PROVENANCE))


def differences(folder: RunFolder) -> list[str]:
    """Every file by its hash; of a merged set every key too. Errors: `StorageError`."""
    try:
        told = json.loads(folder.storage.read_bytes(folder.path(PROVENANCE)))
        wrong = list(_wrong_files(folder, {file["name"]: file for file in told["files"]}))
    except (ValueError, KeyError, TypeError) as error:
        return [f"{folder.describe(PROVENANCE)} cannot be understood: {error}"]
    if not wrong and folder.storage.exists(folder.path(MERGED)):
        wrong = list(_wrong_keys(folder, told["written"]))
    return wrong


def _wrong_files(folder: RunFolder, told: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    start = f"{folder.run_id}/"
    there = {file.path.removeprefix(start): file for file in folder.storage.list(folder.run_id, recursive=True)}
    for name in sorted((there.keys() | told.keys()) - {PROVENANCE}):
        if name not in told:
            yield f"{name} is there, and {PROVENANCE} does not name it"
        elif name not in there:
            yield f"{name} is missing"
        elif folder.storage.sha256(there[name].path) != told[name]["sha256"]:
            yield f"{name} has another sha256"


def _wrong_keys(folder: RunFolder, written: int) -> Iterator[str]:
    """Each (run id, episode id) once, of a run of the set, with its decisions 0, 1, 2 … beside it."""
    runs, seen, rows = read_origin(folder).records, Counter[Key](), 0
    for unit in folder.read_plan():
        episodes, ticks = _episodes(folder, unit), _ticks(folder, unit)
        seen.update(key for key, _ in episodes)
        rows += sum(map(len, ticks.values()))
        there = dict(episodes)
        for key in there.keys() | ticks.keys():
            if ticks.get(key, []) != list(range(there.get(key, 0))):
                n = len(ticks.get(key, ()))
                yield f"unit {unit.number}: {_named(key)} has {n} decisions, not 0 to {there.get(key, 0)}, in order"
    yield from (f"{_named(key)} stands {n} times" for key, n in seen.items() if n > 1)
    yield from (f"run {run_id} is none of the set" for run_id in sorted({key[0] for key in seen} - runs.keys()))
    if rows != written:
        yield f"{rows} rows, not {written}"


def _episodes(folder: RunFolder, unit: Unit) -> list[tuple[Key, int]]:
    """Each row of a unit's `episodes` shard and how many decisions it has."""
    path = folder.path("episodes", shard_name(unit.part))
    rows = read_table(folder.storage, path, ["run_id", "episode_id", "steps"]).to_pylist()
    return [((row["run_id"], row["episode_id"]), row["steps"] or 0) for row in rows]


def _ticks(folder: RunFolder, unit: Unit) -> dict[Key, list[int]]:
    """Episode → its decisions' ticks, in the shard's order; no shard is there where a unit left no decision."""
    found: dict[Key, list[int]] = {}
    path = folder.path("steps", shard_name(unit.part))
    if folder.storage.exists(path):
        for row in read_table(folder.storage, path, ["run_id", "episode_id", "tick"]).to_pylist():
            found.setdefault((row["run_id"], row["episode_id"]), []).append(row["tick"])
    return found


def _named(key: Key) -> str:
    return f"{key[1]} of run {key[0]}"
