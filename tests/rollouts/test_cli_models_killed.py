"""A run of a model whose driver is killed in the middle of calls: the same command goes on, asks for nothing that is
committed, and leaves what an undisturbed run leaves."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint
from tests.console import POOLS, Started, rollouts
from tests.same_rows import assert_same_data

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]
CAP, SEEDS = 6, 4
GAME = ("run", "--scenario", "defend_the_center", "--frames", "none", "--step-cap", str(CAP), "--seeds", f"0:{SEEDS}")
MODEL = ("--policy", "chat:m", "--history", "2", "--in-flight", "2", "--grade", "none", "--run-id", "r")


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "runs/r" / table).to_pylist()
    return found


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run undisturbed: what the endpoint says depends on the question alone."""
    folder = tmp_path_factory.mktemp("calm")
    with FakeEndpoint() as fake:
        rollouts(folder, *GAME, *MODEL, "--pool", "local", "--base-url", fake.base_url)
    return folder


@pytest.mark.parametrize("pool", POOLS)
def test_a_driver_killed_in_the_middle_of_calls_is_made_good(tmp_path: Path, calm: Path, pool: str) -> None:
    words = (*GAME, *MODEL, "--pool", pool)
    with FakeEndpoint(delay_s=0.15) as fake:
        run = Started(tmp_path, (*words, "--base-url", fake.base_url))
        shards = tmp_path / "runs/r/episodes"
        assert fake.wait_until(lambda: shards.is_dir() and any(shards.glob("part-*.parquet")), 90)
        assert fake.wait_until(lambda: fake.in_flight > 0)
        run.process.kill()
        run.process.communicate(timeout=60)
        assert fake.wait_until(lambda: fake.connections == 0, 30), "the actors live on"
        committed, asked = len(list(shards.glob("part-*.parquet"))), len(fake.requests)
        done = rollouts(tmp_path, *words, "--base-url", fake.base_url, "--json")
        again = len(fake.requests) - asked
        assert again == 1 + CAP * (SEEDS - committed), "the opening question, and what was not committed"
        assert 0 < committed < SEEDS
    assert Counter((row["seed"], row["tick"]) for row in rows(tmp_path, "steps")) == {
        (seed, tick): 1 for seed in range(SEEDS) for tick in range(CAP)
    }
    assert_same_data(tmp_path / "runs/r", calm / "runs/r")
    (calls,) = json.loads(done.stdout.splitlines()[-1])["grading"]["calls"]
    parts = (tmp_path / "runs/r/calls").rglob("*.parquet")
    ids = [id for part in parts for id in pq.read_table(part, columns=["call_id"])["call_id"].to_pylist()]
    assert len(ids) == len(set(ids)) == calls["calls"]
    assert asked + again <= calls["tries"] <= asked + again + 2, (
        "all that was sent is on file, and what was about to be"
    )
    assert rollouts(tmp_path, "verify", "runs/r").returncode == 0
