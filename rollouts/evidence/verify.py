"""Checks a run against its evidence: every number and hash of the manifest anew from the shards, and every key.

What it finds is a list of sentences; an empty one means that all is as the manifest says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.errors import StorageError, UsageError
from rollouts.evidence.committed_run import EPISODES, STEPS, CommittedRun, UnitRows, read_unit
from rollouts.evidence.manifest import (
    FROM_RECORD,
    FROM_SHARDS,
    MANIFEST,
    NO_SECTIONS,
    Section,
    read_manifest,
    tally_run,
)
from rollouts.evidence.side_tables import wrong_sides
from rollouts.records import ShardFile, Unit
from rollouts.run.side_survey import survey_sides
from rollouts.run.survey import Survey
from rollouts.shards.reading import count_rows, iter_batches

RELATIVE_TOLERANCE = 1e-9
_SHOWN = 60


def differences(run: CommittedRun, sections: Mapping[str, Section] = NO_SECTIONS) -> list[str]:
    """All that differs, one sentence each. Reads every committed byte. `sections` of the manifest are made anew too,
    where it has them."""
    found: list[str] = []
    steps: dict[int, dict[str, int]] = {}
    survey = run.folder.survey()
    try:
        sides = survey_sides(run.folder, survey.committed)
        anew = tally_run(run, _checked_units(run, found, steps), sides.torn).as_dict()
    except StorageError as error:
        return [*found, f"the side tables cannot be read: {error}"]
    found += [*_strangers(run, survey), *wrong_sides(run, steps, sides)]
    return [*found, *_owed(run), *_wrong_manifest(run, anew, sections)]


def _checked_units(run: CommittedRun, found: list[str], steps: dict[int, dict[str, int]]) -> Iterator[UnitRows]:
    """The units that can be read, one at a time; what is wrong with each goes into `found` on the way, its completed
    episodes and their decisions into `steps`."""
    for unit in run.units():
        try:
            rows = read_unit(run, unit)
        except (StorageError, FileNotFoundError, ValueError) as error:
            found.append(f"unit {unit.number} cannot be read: {error}")
            continue
        found += [*_wrong_keys(run, rows), *_wrong_steps(run, rows), *_wrong_counts(rows), *_wrong_actors(rows)]
        steps[unit.number] = {e.episode_id: e.steps for e in rows.episodes if e.completed}
        yield rows


def _wrong_keys(run: CommittedRun, rows: UnitRows) -> Iterator[str]:
    """The unit's episodes: each planned one once, and no other."""
    where = f"{EPISODES}/{rows.episodes_file.name}"
    planned = Counter(_ids(rows.unit))
    there = Counter(episode.episode_id for episode in rows.episodes)
    yield from (f"{where}: episode {key} is missing" for key in planned - there)
    yield from (f"{where}: episode {key} is doubled" for key in there - planned if key in planned)
    yield from (f"{where}: episode {key} is not planned there" for key in there if key not in planned)
    yield from (f"{where}: rows of run {name!r}" for name in rows.run_ids if name != run.record["run_id"])


def _ids(unit: Unit) -> list[str]:
    keys = unit.keys()
    return [key.episode_id for key in keys]


def _wrong_steps(run: CommittedRun, rows: UnitRows) -> Iterator[str]:
    """The unit's decisions: of completed episodes only, ticks 0 to steps - 1 once each; the file as it was hashed."""
    expected = {episode.episode_id: episode.steps for episode in rows.episodes if episode.completed}
    if rows.steps_file is None:
        yield from (f"episode {key} has {n} decisions and no steps shard" for key, n in expected.items() if n)
        return
    where = f"{STEPS}/{rows.steps_file.name}"
    try:
        yield from _wrong_file(run, where, rows.steps_file)
        ticks = _ticks(run, rows.steps_file.name)
    except (StorageError, FileNotFoundError) as error:
        yield f"{where} cannot be read: {error}"
        return
    for key in sorted(ticks.keys() | expected.keys()):
        if key not in expected:
            yield f"{where}: {len(ticks[key])} rows of {key}, which is no completed episode of its unit"
        else:
            yield from _wrong_ticks(f"{where}: episode {key}", ticks.get(key, []), expected[key])


def _ticks(run: CommittedRun, name: str) -> dict[str, list[int]]:
    ticks: dict[str, list[int]] = {}
    for batch in iter_batches(run.storage, run.path(STEPS, name), ("episode_id", "tick")):
        columns = (batch.column(column).to_pylist() for column in ("episode_id", "tick"))
        for key, tick in zip(*columns, strict=True):
            ticks.setdefault(key, []).append(tick)
    return ticks


def _wrong_ticks(what: str, there: list[int], steps: int) -> Iterator[str]:
    counts = Counter(there)
    missing = [tick for tick in range(steps) if tick not in counts]
    doubled = sorted(tick for tick, n in counts.items() if n > 1)
    beyond = sorted(tick for tick in counts if not 0 <= tick < steps)
    for ticks, fault in ((missing, "missing"), (doubled, "doubled"), (beyond, f"not among its {steps} decisions")):
        if ticks:
            yield f"{what}: {len(ticks)} ticks {fault}, the first is {ticks[0]}"


def _wrong_counts(rows: UnitRows) -> Iterator[str]:
    """Each episode's count of answers out of schema, against its decisions."""
    there: Counter[str] = Counter()
    for batch in rows.decisions:
        ids = zip(batch.episode_ids, batch.rows.out_of_schema, strict=True)
        there.update(episode_id for episode_id, out in ids if out)
    seen = {episode_id for batch in rows.decisions for episode_id in batch.episode_ids}
    for episode in rows.episodes:
        if episode.episode_id in seen and episode.n_out_of_schema != there[episode.episode_id]:
            n, said = there[episode.episode_id], episode.n_out_of_schema
            yield f"{EPISODES}/{rows.episodes_file.name}: {episode.episode_id} says {said} out of schema, its rows {n}"


def _wrong_actors(rows: UnitRows) -> Iterator[str]:
    """Who acted, against who was asked, what was said and what was sent; nobody acts only where an episode ends."""
    last = {episode.episode_id: episode.steps - 1 for episode in rows.episodes}
    wrong = [
        (key, tick, who)
        for batch in rows.decisions
        for key, tick, who, other in zip(
            batch.episode_ids, batch.ticks, batch.acted_by, batch.misattributed(), strict=True
        )
        if other or (who is None and tick != last.get(key))
    ]
    if wrong:
        key, tick, who = wrong[0]
        first = f"the first is tick {tick} of {key}, acted_by {who!r}"
        yield f"unit {rows.unit.number}: in {len(wrong)} decisions another acted than their row says; {first}"


def _wrong_file(run: CommittedRun, where: str, said: ShardFile) -> Iterator[str]:
    path = run.path(where)
    there = {"bytes": run.storage.size(path), "sha256": run.storage.sha256(path), "rows": count_rows(run.storage, path)}
    for name, value in there.items():
        if value != getattr(said, name):
            yield f"{where}: {name} is {value}, its episodes shard says {getattr(said, name)}"


def _strangers(run: CommittedRun, found: Survey) -> Iterator[str]:
    """Files that a reader would take for shards and that no commit accounts for."""
    for path, fault in found.damaged.items():
        yield f"{run.storage.describe(path)}: {fault}"
    for path in found.orphans:
        yield f"{run.storage.describe(path)} belongs to no committed unit (resuming the run clears it away)"


def _owed(run: CommittedRun) -> Iterator[str]:
    planned = {episode_id for unit in run.plan for episode_id in _ids(unit)}
    owed = planned - run.latest.keys()
    if owed:
        yield f"{len(owed)} of {len(planned)} planned episodes are missing, the first is {min(owed)}"


def _wrong_manifest(
    run: CommittedRun, from_shards: Mapping[str, Any], sections: Mapping[str, Section]
) -> Iterator[str]:
    try:
        manifest = read_manifest(run)
    except (ValueError, StorageError) as error:
        yield f"{MANIFEST} cannot be read: {error}"
        return
    if manifest is None:
        yield f"{MANIFEST} is missing"
        return
    anew = {**{key: run.record[key] for key in FROM_RECORD}, **from_shards}
    for key in (*FROM_RECORD, *FROM_SHARDS):
        yield from _differing(key, manifest.get(key), anew[key])
    for key in sections.keys() & manifest.keys():
        try:
            yield from _differing(key, manifest[key], sections[key](run))
        except (StorageError, UsageError) as error:
            yield f"{MANIFEST}: {key} cannot be made anew: {error}"


def _differing(where: str, said: Any, anew: Any) -> Iterator[str]:
    """Leaf by leaf. Numbers may differ in the last digits, for another machine may add in another order."""
    if isinstance(said, Mapping) and isinstance(anew, Mapping):
        for key in {**anew, **said}:
            yield from _differing(f"{where}.{key}", said.get(key), anew.get(key))
    elif isinstance(said, list) and isinstance(anew, list) and len(said) == len(anew):
        for i, pair in enumerate(zip(said, anew, strict=True)):
            yield from _differing(f"{where}[{i}]", *pair)
    elif not _same(said, anew):
        yield f"{where}: {MANIFEST} says {_short(said)}, the run itself {_short(anew)}"


def _same(said: Any, anew: Any) -> bool:
    if isinstance(said, float) or isinstance(anew, float):
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (said, anew))
        return numbers and math.isclose(said, anew, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
    return type(said) is type(anew) and bool(said == anew)


def _short(value: Any) -> str:
    text = f"a list of {len(value)}" if isinstance(value, list) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
