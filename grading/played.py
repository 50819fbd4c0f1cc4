"""Played episodes as graders read them: the text columns of a unit's shards, never its pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grading.heuristic import Baseline
from grading.transcript import (
    STEP_COLUMNS,
    EpisodeFacts,
    HostAgent,
    Transcript,
    TranscriptStep,
    episode_transcript,
    step_from_row,
)
from rollouts.errors import TryVoid
from rollouts.records import EpisodeKey, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.shards.reading import iter_batches, read_table, to_rows
from rollouts.shards.writing import shard_name
from rollouts.store.storage import Storage

_EPISODE_COLUMNS = (
    *("episode_id", "status", "metric_name", "metric", "end_reason", "final_state"),
    *("steps_shard", "steps_shard_sha256"),
)
_WITHOUT_TEXT = ("tick", "effective_action", "model_action", "asked", "schema_error", "n_visible", "events")
"""What judging without a model, and credit, take of a decision."""
_PUBLISHED = (4, 300)
"""Tics and step cap of the published protocol, for runs whose record does not say whether their baselines hold."""


@dataclass(frozen=True)
class PlayedEpisode:
    """A completed episode of a unit. `baseline` is None where none holds for its settings; `play` names the play of the
    unit, by the sha256 of its `steps` shard ("" where no episode left a decision)."""

    key: EpisodeKey
    facts: EpisodeFacts
    host: HostAgent
    steps: tuple[TranscriptStep, ...]
    baseline: Baseline | None
    play: str

    @property
    def id(self) -> str:
        return self.facts.episode_id

    def transcript(self) -> Transcript:
        return episode_transcript(self.facts, self.host, self.steps)


class RunReader:
    """Reads the units of one run. What `run.json` says is read once."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    @cached_property
    def record(self) -> dict[str, Any]:
        return self._folder.read_record()

    def read(self, unit: Unit, *, texts: bool) -> list[PlayedEpisode]:
        """The completed episodes of a committed unit, in its order; without `texts` their decisions have no state and
        no counters. Errors: `StorageError`; `TryVoid` where a shard is not there."""
        folder, name = self._folder, shard_name(unit.part)
        files = (folder.path("episodes", name), folder.path("steps", name))
        try:
            return self.read_files(unit, folder.storage, *files, texts=texts)
        except FileNotFoundError as error:
            raise TryVoid(f"unit {unit.number} cannot be judged: {error}") from error

    def read_files(
        self, unit: Unit, storage: Storage, episodes: str, steps: str, *, texts: bool
    ) -> list[PlayedEpisode]:
        """The same from two files wherever they lie. Errors: `StorageError`, `FileNotFoundError`."""
        rows = {row["episode_id"]: row for row in read_table(storage, episodes, _EPISODE_COLUMNS).to_pylist()}
        decisions: dict[str, list[TranscriptStep]] = {}
        if any(row["steps_shard"] is not None for row in rows.values()):
            for key, step in (_steps if texts else _steps_without_text)(storage, steps):
                decisions.setdefault(key, []).append(step)
        keys = unit.keys()
        completed = [key for key in keys if rows[key.episode_id]["status"] == "completed"]
        return [self._episode(key, rows[key.episode_id], decisions.get(key.episode_id, [])) for key in completed]

    def _episode(self, key: EpisodeKey, row: Mapping[str, Any], steps: list[TranscriptStep]) -> PlayedEpisode:
        scenario = self.record["scenarios"][key.scenario]
        facts = EpisodeFacts(
            episode_id=key.episode_id,
            metric_name=row["metric_name"],
            metric=row["metric"],
            end_reason=row["end_reason"],
            instructions=scenario["instructions"].get(key.rubric),
            final_state=row["final_state"],
        )
        play = row["steps_shard_sha256"] or ""
        return PlayedEpisode(key, facts, self._host(key.policy), tuple(steps), baseline_of(scenario), play)

    def _host(self, policy: str) -> HostAgent:
        for said in self.record["policies"].values():
            if said["name"] == policy:
                return HostAgent(policy, said["kind"], said["model"], said["provider"], said["note"])
        return HostAgent(policy)


def _steps(storage: Storage, path: str) -> Iterator[tuple[str, TranscriptStep]]:
    """(episode id, decision) of a `steps` shard, as it lies there."""
    for batch in iter_batches(storage, path, STEP_COLUMNS):
        for row in to_rows(batch):
            yield row["episode_id"], step_from_row(row)


def _steps_without_text(storage: Storage, path: str) -> Iterator[tuple[str, TranscriptStep]]:
    """The same in a third of the time: this is done to every decision that is played."""
    for batch in iter_batches(storage, path, ("episode_id", *_WITHOUT_TEXT)):
        columns = (batch.column(name).to_pylist() for name in ("episode_id", *_WITHOUT_TEXT))
        for key, tick, action, answer, asked, schema_error, visible, events in zip(*columns, strict=True):
            events = tuple(events or ())  # noqa: PLW2901
            yield key, TranscriptStep(tick, "", action, answer, asked, schema_error, None, events, n_visible=visible)


def baseline_of(scenario: Mapping[str, Any]) -> Baseline | None:
    """The scenario's means, where the run was played under the settings that they were measured with."""
    means = scenario["baselines"]
    hold = scenario.get("baselines_hold", (scenario["tics"], scenario["step_cap"]) == _PUBLISHED)
    return Baseline(means["random"], means["oracle"]) if means and hold and means["oracle"] is not None else None
