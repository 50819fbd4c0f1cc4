"""A run as it lies on disk, and its committed rows unit by unit. Reads what is committed alone, and lists nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from rollouts.evidence.results import EpisodeRow, GroupFacts
from rollouts.plan import superseding
from rollouts.records import ShardFile, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.run.survey import failed_episodes
from rollouts.shards.decision_columns import COLUMNS, DecisionBatch, decision_batches
from rollouts.shards.reading import Commit, Failure, iter_batches, read_table
from rollouts.shards.writing import shard_name
from rollouts.store.storage import Storage

STEPS = "steps"
EPISODES = "episodes"
READERS = 8
_STEPS_SHARD = ("steps_shard", "steps_shard_rows", "steps_shard_bytes", "steps_shard_sha256")
_EPISODE_COLUMNS = (
    *("run_id", "episode_id", "seed", "episode_index", "unit", "status", "stage", "cause", "metric", "steps"),
    *("n_out_of_schema", "end_reason", "latency_ms_p50", "latency_ms_p95", "started_at", "ended_at", *_STEPS_SHARD),
)
GroupName = tuple[str, str, str]


@dataclass(frozen=True)
class CommittedRun:
    """Where a run lies, what it was to be (`record` is run.json's), and what is committed of its plan, by unit.

    `damaged`: files that count for nothing, by path, each with what is wrong with it.
    """

    folder: RunFolder
    record: Mapping[str, Any]
    plan: Sequence[Unit]
    commits: Mapping[int, Commit]
    damaged: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: RunFolder) -> CommittedRun:
        """As it lies there now. Errors: `UsageError` where there is no run, `StorageError`."""
        record, plan, survey = folder.read_record(), folder.read_plan(), folder.survey()
        return cls(folder, record, plan, survey.committed, survey.damaged)

    @cached_property
    def committed(self) -> frozenset[int]:
        """The units' numbers."""
        return frozenset(self.commits)

    @property
    def storage(self) -> Storage:
        return self.folder.storage

    def is_damaged(self, unit: Unit) -> bool:
        """Was it committed once, and cannot be read any more?"""
        name = shard_name(unit.part)
        return any(self.path(table, name) in self.damaged for table in (EPISODES, STEPS))

    def path(self, *parts: str) -> str:
        """The storage's path of something in the run's folder."""
        return self.folder.path(*parts)

    @cached_property
    def latest(self) -> dict[str, int]:
        """Episode id → the unit whose row of it counts."""
        return superseding(self.plan, self.committed)

    @cached_property
    def failures(self) -> dict[str, Failure]:
        """Episode id → how it failed, where its row that counts says so."""
        return failed_episodes(self.latest, self.commits)

    def units(self) -> list[Unit]:
        """The committed units, in the order of their numbers."""
        return sorted((unit for unit in self.plan if unit.number in self.committed), key=lambda unit: unit.number)

    def groups(self) -> tuple[GroupFacts, ...]:
        """One for each (scenario, rubric, policy) of the plan, in its order. Seeds and counts are the plan's."""
        planned: dict[GroupName, dict[tuple[int, int], None]] = {}
        for unit in self.plan:
            episodes = planned.setdefault((unit.scenario, unit.rubric, unit.policy), {})
            episodes.update(((episode.seed, episode.index), None) for episode in unit.episodes)
        return tuple(self._facts(name, tuple(episodes)) for name, episodes in planned.items())

    def _facts(self, name: GroupName, episodes: Sequence[tuple[int, int]]) -> GroupFacts:
        scenario = self.record["scenarios"][name[0]]
        seeds = tuple(dict.fromkeys(seed for seed, _ in episodes))
        return GroupFacts(
            *name,
            metric_name=scenario["metric"]["name"],
            tics=scenario["tics"],
            step_cap=scenario["step_cap"],
            episodes_per_seed=1 + max(index for _, index in episodes),
            seeds=seeds,
            n_planned=len(episodes),
            seeds_published=list(seeds) == scenario["published_seeds"],
            has_teacher=scenario["has_teacher"],
            captures_frames=self.record["configuration"]["frames"] != "none",
        )


@dataclass(frozen=True, slots=True)
class UnitRows:
    """What a committed unit holds: its own `episodes` shard, the `steps` shard that it names, and their rows.

    `decisions` are those of completed episodes whose row here counts; `run_ids` are the names that its rows carry.
    """

    unit: Unit
    episodes_file: ShardFile
    steps_file: ShardFile | None
    episodes: tuple[EpisodeRow, ...]
    decisions: tuple[DecisionBatch, ...]
    run_ids: frozenset[str]


def read_units(run: CommittedRun, groups: Collection[GroupName] | None = None) -> Iterator[UnitRows]:
    """The committed units in order, a few at a time in parallel; memory holds those few without their frames. Of
    `groups` alone, where given."""
    units = (unit for unit in run.units() if groups is None or (unit.scenario, unit.rubric, unit.policy) in groups)
    with ThreadPoolExecutor(READERS) as readers:
        while some := tuple(islice(units, READERS)):
            yield from readers.map(lambda unit: read_unit(run, unit), some)


def read_unit(run: CommittedRun, unit: Unit) -> UnitRows:
    """Errors: `TornShard`, `StorageError`, `FileNotFoundError`."""
    name = shard_name(unit.part)
    path = run.path(EPISODES, name)
    rows = read_table(run.storage, path, _EPISODE_COLUMNS).to_pylist()
    episodes = tuple(map(_episode_row, rows))
    steps_file = _steps_file(rows)
    counted = {e.episode_id for e in episodes if e.completed and run.latest.get(e.episode_id) == unit.number}
    decisions = tuple(_decisions(run, steps_file.name, counted, len(episodes))) if steps_file and counted else ()
    size, sha256 = run.storage.size(path), run.storage.sha256(path)
    return UnitRows(
        unit=unit,
        episodes_file=ShardFile(name, len(rows), size or 0, sha256),
        steps_file=steps_file,
        episodes=episodes,
        decisions=decisions,
        run_ids=frozenset(row["run_id"] for row in rows),
    )


def _decisions(run: CommittedRun, name: str, counted: set[str], n_episodes: int) -> Iterator[DecisionBatch]:
    wanted = None if len(counted) == n_episodes else counted
    for batch in iter_batches(run.storage, run.path(STEPS, name), COLUMNS):
        yield from decision_batches(batch, wanted)


def _steps_file(rows: Sequence[Mapping[str, Any]]) -> ShardFile | None:
    if not rows or rows[0]["steps_shard"] is None:
        return None
    return ShardFile(*(rows[0][column] for column in _STEPS_SHARD))


def _episode_row(row: Mapping[str, Any]) -> EpisodeRow:
    return EpisodeRow(
        episode_id=row["episode_id"],
        seed=row["seed"],
        index=row["episode_index"],
        status=row["status"],
        metric=row["metric"],
        steps=row["steps"] or 0,
        played_s=(row["ended_at"] - row["started_at"]).total_seconds(),
        n_out_of_schema=row["n_out_of_schema"] or 0,
        stage=row["stage"],
        cause=row["cause"],
        end_reason=row["end_reason"],
        latency_ms_p50=row["latency_ms_p50"],
        latency_ms_p95=row["latency_ms_p95"],
    )
