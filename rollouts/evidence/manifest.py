"""The evidence bundle of a run: `manifest.json` and the card, made from run.json, the plan and committed shards alone.

Whoever has more to tell (grades, credit) hands in a section: a name and what makes it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rollouts.evidence.card import dataset_card
from rollouts.evidence.committed_run import EPISODES, STEPS, CommittedRun, UnitRows, read_units
from rollouts.evidence.results import GroupTally, total_coverage
from rollouts.evidence.side_tables import side_shards
from rollouts.provenance import package_versions, source_revision
from rollouts.records import ShardFile
from rollouts.run.run_folder import RunFolder

MANIFEST = "manifest.json"
CARD = "README.md"
MANIFEST_VERSION = 1
FROM_RECORD = (
    *("benchmark", "run_id", "episodic", "started_at", "identity", "identity_sha256", "configuration"),
    *("source", "versions", "engine", "scenarios", "policies"),
)
FROM_SHARDS = ("coverage", "failures", "results", "tables")
Section = Callable[[CommittedRun], Any]
NO_SECTIONS: Mapping[str, Section] = {}


@dataclass(frozen=True)
class RunNumbers:
    """All that the committed shards say: a tally for each group, and each table's shards."""

    groups: tuple[GroupTally, ...]
    shards: Mapping[str, tuple[ShardFile, ...]]

    def as_dict(self) -> dict[str, Any]:
        """The manifest's sections FROM_SHARDS."""
        coverages = [group.coverage() for group in self.groups]
        return {
            "coverage": {**total_coverage(coverages), "groups": coverages},
            "failures": [failure for group in self.groups for failure in group.failures()],
            "results": [group.block() for group in self.groups],
            "tables": {name: _table(shards) for name, shards in self.shards.items()},
        }


def tally_run(run: CommittedRun, units: Iterable[UnitRows] | None = None, torn: Collection[str] = ()) -> RunNumbers:
    """Count every committed row once; of an episode's rows the last one alone. `units` are read where not given; shards
    of side tables at the paths `torn` are left out."""
    groups = {facts.name: GroupTally(facts) for facts in run.groups()}
    shards: dict[str, list[ShardFile]] = {STEPS: [], EPISODES: []}
    for rows in read_units(run) if units is None else units:
        unit = rows.unit
        _count(run, rows, groups[unit.scenario, unit.rubric, unit.policy])
        shards[EPISODES].append(rows.episodes_file)
        shards[STEPS] += [rows.steps_file] if rows.steps_file else []
    tables = {name: tuple(files) for name, files in shards.items()}
    return RunNumbers(tuple(groups.values()), {**tables, **side_shards(run, torn)})


def _count(run: CommittedRun, rows: UnitRows, group: GroupTally) -> None:
    for episode in rows.episodes:
        if run.latest.get(episode.episode_id) == rows.unit.number:
            group.add_episode(episode)
    for batch in rows.decisions:
        group.add_decisions(batch.rows, batch.schema_errors, batch.n_frames, batch.parse_rules)


def _table(shards: Iterable[ShardFile]) -> dict[str, Any]:
    listed = [dataclasses.asdict(shard) for shard in shards]
    return {"rows": sum(shard["rows"] for shard in listed), "shards": listed}


def make_manifest(run: CommittedRun, sections: Mapping[str, Section] = NO_SECTIONS) -> dict[str, Any]:
    """The manifest as plain JSON values. Does not depend on who played what, where, or in which order."""
    return {
        "manifest_version": MANIFEST_VERSION,
        **{key: run.record[key] for key in FROM_RECORD},
        "written_at": datetime.now(UTC).isoformat(),
        "written_by": {"source": dataclasses.asdict(source_revision()), "versions": package_versions()},
        "location": run.folder.describe(),
        **tally_run(run).as_dict(),
        **{name: section(run) for name, section in sections.items()},
    }


def write_evidence(
    run: CommittedRun,
    sections: Mapping[str, Section] = NO_SECTIONS,
    held: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> dict[str, Any]:
    """Write the card and then the manifest, over what was there; returns the manifest. Errors: `StorageError`.

    `held` is entered for the writing alone: a driver gives its lease's, which raises `LeaseError` where it is lost.
    """
    manifest = make_manifest(run, sections)
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False)
    with held():
        run.storage.write_bytes(run.path(CARD), dataset_card(manifest).encode(errors="replace"))
        run.storage.write_bytes(run.path(MANIFEST), f"{text}\n".encode(errors="backslashreplace"))
    return manifest


def read_manifest(run: CommittedRun | RunFolder) -> dict[str, Any] | None:
    """None where there is none yet. Errors: `ValueError` where it is no JSON object."""
    try:
        manifest = run.storage.read_json(run.path(MANIFEST))
    except FileNotFoundError:
        return None
    if not isinstance(manifest, dict):
        raise ValueError("not a JSON object")
    return manifest
