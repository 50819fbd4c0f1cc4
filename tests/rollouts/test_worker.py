"""A worker on the real engine: what an engine that dies in the middle of an episode leaves, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rollouts.config import RunConfig
from rollouts.records import PlannedEpisode, Unit, UnitReport
from rollouts.run.run_folder import RunFolder
from rollouts.shards.schemas import EPISODES_EXEMPT, STEPS_EXEMPT
from rollouts.store.storage import LocalStorage
from rollouts.worker import Worker, WorkOrder
from tests.faults import KillsEngines

UNIT = Unit(0, "defend_the_center", "rule", "kills", tuple(PlannedEpisode(seed, 0) for seed in range(4)))
CONFIG = RunConfig(scenarios=("defend_the_center",), policies=("tests.faults:Calm",), step_cap=6, frames="none")


def play(root: Path, policy: str) -> tuple[UnitReport, list[dict[str, Any]], list[dict[str, Any]]]:
    """The unit's report, and its rows without what two plays may differ in."""
    order = WorkOrder(replace(CONFIG, policies=(policy,)), "r", {"kills": policy}, {})
    worker = Worker(order, RunFolder(LocalStorage(root), "r"), "me", "here")
    try:
        report = worker.play(UNIT, "a", {})
    finally:
        worker.close()
    staged = root / "r/.staging/part-0000000/a"
    return report, rows(staged / "steps.staged", STEPS_EXEMPT), rows(staged / "episodes.staged", EPISODES_EXEMPT)


def rows(path: Path, exempt: frozenset[str]) -> list[dict[str, Any]]:
    table = pq.read_table(path)
    found: list[dict[str, Any]] = table.select([name for name in table.column_names if name not in exempt]).to_pylist()
    return found


@pytest.mark.slow
def test_an_engine_killed_twice_in_an_episode_is_counted_and_changes_no_row(tmp_path: Path) -> None:
    report, steps, episodes = play(tmp_path / "hurt", "tests.faults:KillsEngines")
    calm, calm_steps, calm_episodes = play(tmp_path / "calm", "tests.faults:Calm")
    assert (report.engine_restarts, calm.engine_restarts) == (2, 0)
    assert (report.failures, report.n_decisions) == ((None,) * 4, 24)
    assert steps == calm_steps
    assert episodes == calm_episodes


class KillsAlways(KillsEngines):
    def __init__(self) -> None:
        super().__init__(kills=99)


@pytest.mark.slow
def test_an_engine_that_always_dies_fails_that_episode_alone(tmp_path: Path) -> None:
    report, steps, episodes = play(tmp_path, "tests.rollouts.test_worker:KillsAlways")
    (none, failure, *others) = report.failures
    assert [none, *others] == [None] * 3
    assert failure is not None
    assert failure[0] == "engine"
    assert failure[1].startswith("engine lost 3 times, the last: EngineLost")
    assert [row["status"] for row in episodes] == ["completed", "failed", "completed", "completed"]
    assert {row["seed"] for row in steps} == {0, 2, 3}
    assert len(steps) == 18
