"""The console command on a real Ray of its own, in a process of its own: what placement and signals may change."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = uuid.uuid4().hex
EXEMPT = {
    *("run_id", "decided_at", "started_at", "ended_at", "latency_ms", "latency_ms_p50", "latency_ms_p95"),
    *("actor", "node", "tries", "steps_shard_sha256", "steps_shard_bytes"),
}
KEYS = {"steps": ["episode_id", "tick"], "episodes": ["episode_id"]}
SMALL = ("--scenario", "all", "--policy", "oracle", "--policy", "random", "--seeds", "0:2", "--step-cap", "12")

pytestmark = pytest.mark.slow


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "rollouts.cli", *words]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "ROLLOUTS_TEST_MARK": MARK}


def rollouts(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*words), cwd=folder, env=environment(), capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def table(run: Path, name: str) -> pd.DataFrame:
    """A table of a run without the columns that a repeat may differ in, in the order of its keys."""
    rows = pd.read_parquet(run / name).drop(columns=EXEMPT, errors="ignore")
    return rows.sort_values(KEYS[name], ignore_index=True)


def left_over() -> list[str]:
    """The processes that live with the mark of this test process, apart from itself."""
    found = []
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error):
            if process.environ().get("ROLLOUTS_TEST_MARK") == MARK:
                found.append(process.info["name"])
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same configuration, played in this process and by one, two and five actors."""
    folder = tmp_path_factory.mktemp("placement")
    rollouts(folder, "run", *SMALL, "--pool", "local", "--run-id", "local")
    for actors in ("1", "2", "5"):
        rollouts(folder, "run", *SMALL, "--actors", actors, "--cpus-per-actor", "0.2", "--run-id", f"ray-{actors}")
    return folder / "runs"


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("placed", ["ray-1", "ray-2", "ray-5"])
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
    assert time.monotonic() - begun_s < 30
    assert said.stderr.startswith("rollouts: asked for 4000 actors of 1 CPU each")
    assert said.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_policys_own_words_reach_the_end_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        'class Broken:\n    def __init__(self):\n        raise ValueError("bad weights path X")\n'
    )
    said = rollouts(tmp_path, "run", *SMALL[:2], "--policy", "broken:Broken", "--run-id", "r", code=1)
    assert "bad weights path X" in said.stderr.splitlines()[-1]
    assert "bad weights path X" in (tmp_path / "runs/r/manifest.json").read_text()


@pytest.mark.parametrize("pool", ["ray", "local"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_run_that_the_same_command_then_finishes(tmp_path: Path, pool: str, number: int) -> None:
    words = ("run", "--scenario", "defend_the_center", "--seeds", "0:12", "--pool", pool, "--run-id", "r", "--json")
    process = subprocess.Popen(
        command(*words), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    wait_for(process.stdout, "progress")
    stopped_s = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - stopped_s < 5
    assert process.returncode == 128 + number
    assert "give the same command again" in err.splitlines()[-1]
    done = json.loads(out.splitlines()[-1])
    assert (done["event"], done["state"], done["exit_code"]) == ("done", "interrupted", 128 + number)
    assert 0 < done["owed"] < 12
    assert left_over() == []
    again = json.loads(rollouts(tmp_path, *words).stdout.splitlines()[0])
    assert again["episodes_owed"] == done["owed"]
    rollouts(tmp_path, "verify", "runs/r")


def wait_for(lines: Any, event: str) -> None:
    for line in lines:
        if json.loads(line)["event"] == event:
            return
    raise AssertionError(f"no {event} was printed")
