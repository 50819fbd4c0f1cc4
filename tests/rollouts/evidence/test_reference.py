"""The published reference results, from the real engine through shards to the manifest.

Source of the values: the published protocol (one episode a seed, tics 4, at most 300 decisions, rubric `rule`), as
measured with vizdoom 1.3.0 and 1.3.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollouts.config import RunConfig
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import write_evidence
from rollouts.evidence.verify import differences
from rollouts.identity import RunFacts
from rollouts.plan import PlanGroup, make_plan
from rollouts.policies.registry import make_policy
from rollouts.run.run_folder import RunFolder
from rollouts.run.run_record import make_run_record
from rollouts.scenarios.registry import PUBLISHED_SCENARIOS, find_scenario
from rollouts.store.storage import open_storage
from rollouts.worker import Worker, WorkOrder

RUN_ID = "reference"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CommittedRun:
    """The oracle on both scenarios, played here, one unit after the other."""
    config = RunConfig(frames="none", pool="local", run_id=RUN_ID)
    facts = RunFacts("", {}, {"oracle": make_policy("oracle", find_scenario(PUBLISHED_SCENARIOS[0])).describe()})
    groups = [PlanGroup(s.name, "rule", "oracle", s.seeds, frames="none") for s in config.resolved()]
    plan = make_plan(groups)
    folder = RunFolder(open_storage(tmp_path_factory.mktemp("runs")), RUN_ID)
    lease = folder.acquire()
    folder.create(lease, make_run_record(config, facts, RUN_ID), plan)
    worker = Worker(WorkOrder(config, RUN_ID, {"oracle": "oracle"}, {}), folder, "actor", "node")
    try:
        for unit in plan:
            folder.promote(lease, worker.play(unit, lease.next_attempt(), {}))
    finally:
        worker.close()
    folder.finish(lease)
    return CommittedRun.open(folder)


def block(manifest: dict[str, Any], scenario: str) -> dict[str, Any]:
    (found,) = [block for block in manifest["results"] if block["scenario"] == scenario]
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_the_oracle_comes_out_at_the_published_numbers(run: CommittedRun) -> None:
    manifest = write_evidence(run)
    kills = block(manifest, "defend_the_center")
    survival = block(manifest, "health_gathering")
    assert kills["kills_aggregate"]["mean"] == 11.125
    assert kills["kills_aggregate"]["sd"] == pytest.approx(2.03, abs=0.005)
    assert survival["survival_s_aggregate"]["mean"] == pytest.approx(19.71, abs=0.005)
    assert survival["survival_s_aggregate"]["sd"] == pytest.approx(7.02, abs=0.005)
    assert (kills["n_decisions"], survival["n_decisions"]) == (1_501, 1_380)
    for of in (kills, survival):
        agreement = of["rubric_agreement"]
        assert (agreement["agreement"], agreement["brier"], agreement["ece"]) == (1.0, 0.0, 0.0)
        assert agreement["n"] == agreement["n_usable"] == of["n_decisions"]
        assert of["seeds_published"] is True
        assert of["triples"] == {"enabled": False}


@pytest.mark.slow
def test_and_the_run_verifies(run: CommittedRun) -> None:
    write_evidence(run)
    assert differences(run) == []
    assert Path(run.storage.full(run.path("manifest.json"))).exists()
