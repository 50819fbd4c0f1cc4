"""Runs for reports, with whatever texts a test puts into them; written and committed as real ones are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grading.evidence import SECTION, grading_section
from grading.grade import Weights
from rollouts.config import RunConfig
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import make_manifest
from rollouts.identity import RunFacts
from rollouts.plan import PlanGroup, make_plan
from rollouts.records import PolicyDescription, Unit
from rollouts.report.judgements import Judge, no_judgements
from rollouts.report.reported_run import ReportedRun, read_run
from rollouts.run.run_folder import RunFolder
from rollouts.run.run_record import make_run_record
from rollouts.store.storage import open_storage
from tests.made_runs import NOON, RUN_ID, Played, stage


def histories_run(
    root: Path, histories: Mapping[str, Sequence[Played | None]], run_id: str = RUN_ID, episodes_per_unit: int = 1
) -> CommittedRun:
    """The counting game by each policy, an episode a seed from 1 on, as its history has it; None: a seed that is owed
    (with all of its unit)."""
    names = tuple(histories)
    groups = [
        PlanGroup("counting", "rule", name, tuple(range(1, 1 + len(played))), step_cap=9)
        for name, played in histories.items()
    ]
    plan = make_plan(groups, episodes_per_unit=episodes_per_unit)
    config = RunConfig(scenarios=("tests.doubles:COUNTING",), policies=names, step_cap=9, run_id=run_id)
    described = {name: PolicyDescription(name, "model", model=name) for name in names}
    facts = RunFacts("0.0", {"counting": {"cfg_sha256": "none"}}, described)
    record = make_run_record(config, facts, run_id) | {"started_at": NOON.isoformat()}
    folder = RunFolder(open_storage(root), run_id)
    lease = folder.acquire()
    folder.create(lease, record, plan)
    for unit in plan:
        if history := _history(unit, histories):
            assert folder.promote(lease, stage(folder, unit, lease.next_attempt(), history))
    folder.finish(lease)
    return CommittedRun.open(folder)


def _history(unit: Unit, histories: Mapping[str, Sequence[Played | None]]) -> list[Played]:
    played = [histories[unit.policy][episode.seed - 1] for episode in unit.episodes]
    return [] if None in played else [one for one in played if one is not None]


def fresh_manifest(run: CommittedRun) -> dict[str, Any]:
    return make_manifest(run, {SECTION: grading_section(Weights())})


def reported(run: CommittedRun, judge: Judge = no_judgements) -> ReportedRun:
    return read_run(run.folder, fresh_manifest, judge)
