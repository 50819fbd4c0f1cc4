"""The console command on a real Ray of its own, in a process of its own: what placement and signals may change."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.console import rollouts

EXEMPT = {
    *("run_id", "decided_at", "started_at", "ended_at", "latency_ms", "latency_ms_p50", "latency_ms_p95"),
    *("actor", "node", "tries", "steps_shard_sha256", "steps_shard_bytes"),
}
KEYS = {"steps": ["episode_id", "tick"], "episodes": ["episode_id"]}
SMALL = ("--scenario", "published", "--policy", "oracle", "--policy", "random", "--seeds", "0:2", "--step-cap", "12")

pytestmark = pytest.mark.slow


def table(run: Path, name: str) -> pd.DataFrame:
    """A table of a run without the columns that a repeat may differ in, in the order of its keys."""
    rows = pd.read_parquet(run / name).drop(columns=EXEMPT, errors="ignore")
    return rows.sort_values(KEYS[name], ignore_index=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same configuration, played in this process and by one and five actors."""
    folder = tmp_path_factory.mktemp("placement")
    rollouts(folder, "run", *SMALL, "--pool", "local", "--run-id", "local")
    for actors in ("1", "5"):
        rollouts(folder, "run", *SMALL, "--actors", actors, "--cpus-per-actor", "0.2", "--run-id", f"ray-{actors}")
    return folder / "runs"


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("placed", ["ray-1", "ray-5"])
def test_the_data_does_not_depend_on_who_played_it(runs: Path, placed: str, name: str) -> None:
    pd.testing.assert_frame_equal(table(runs / placed, name), table(runs / "local", name))
    assert len(table(runs / "local", name)) == {"steps": 8 * 12, "episodes": 8}[name]


def test_every_sound_run_verifies(runs: Path) -> None:
    for run in sorted(runs.iterdir()):
        rollouts(runs, "verify", str(run), "--replay", "2")


def test_the_published_protocol_comes_out_digit_for_digit(tmp_path: Path) -> None:
    """The demo: reference results of the episodes' specification, vizdoom 1.3.0 and 1.3.1."""
    said = rollouts(tmp_path, "run", "--policy", "oracle", "--policy", "random", "--json")
    blocks = {(b["scenario"], b["policy"]): b for b in json.loads(said.stdout.splitlines()[-1])["results"]}
    defend, health = blocks["defend_the_center", "oracle"], blocks["health_gathering", "oracle"]
    assert defend["kills_aggregate"]["mean"] == 11.125
    assert round(defend["kills_aggregate"]["sd"], 2) == 2.03
    assert round(health["survival_s_aggregate"]["mean"], 2) == 19.71
    assert round(health["survival_s_aggregate"]["sd"], 2) == 7.02
    assert (defend["n_decisions"], health["n_decisions"]) == (1_501, 1_380)
    for block in (defend, health):
        agreement = block["rubric_agreement"]
        assert (agreement["agreement"], agreement["brier"], agreement["ece"]) == (1.0, 0.0, 0.0)
        assert block["n_out_of_schema"] == 0


def test_random_over_many_seeds_lands_where_it_should(tmp_path: Path) -> None:
    words = ("--policy", "random", "--seeds", "0:8", "--episodes-per-seed", "10", "--frames", "none", "--json")
    done = json.loads(rollouts(tmp_path, "run", *words).stdout.splitlines()[-1])
    means = {b["scenario"]: next(v for k, v in b.items() if k.endswith("_aggregate"))["mean"] for b in done["results"]}
    assert 1.0 <= means["defend_the_center"] <= 1.8
    assert 13.3 <= means["health_gathering"] <= 16.0


def test_more_than_the_nodes_can_hold_is_refused_soon_and_leaves_nothing(tmp_path: Path) -> None:
    begun_s = time.monotonic()
    said = rollouts(tmp_path, "run", *SMALL, "--actors", "4000", code=2)
    assert time.monotonic() - begun_s < 90  # it would wait for ever; 30 s where nothing else runs
    assert said.stderr.startswith("rollouts: asked for 4000 actors of 1 CPU each")
    assert said.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
