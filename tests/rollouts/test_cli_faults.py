"""Runs from the console that go wrong: they end by themselves, say why, and what they leave is whole."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.console import DEFEND, POOLS, command, environment, episodes, last_line, rollouts

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_is_left")]
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def manifest(folder: Path, run_id: str = "r") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / run_id / "manifest.json").read_text())
    return found


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*DEFEND, "--policy", "tests.faults:BadWeights"), "bad weights path X"),
        (("--scenario", "tests.faults:NO_RESET", "--frames", "none"), "no such level as E9M9"),
        ((*DEFEND, "--policy", "tests.faults:Hangs", "--unit-timeout-s", "1"), "took longer than 1 s"),
    ],
)
def test_what_always_fails_ends_by_itself_with_its_true_message(
    tmp_path: Path, pool: str, words: tuple[str, ...], says: str
) -> None:
    begun_s = time.monotonic()
    done = rollouts(tmp_path, "run", *words, "--pool", pool, "--run-id", "r", code=1)
    took_s = time.monotonic() - begun_s
    assert says in last_line(done)
    assert last_line(done).startswith("rollouts: stopped with ")
    outcome = manifest(tmp_path)["outcome"]
    assert outcome["state"] == "stopped"
    assert says in outcome["cause"]
    assert took_s < (90 if "Hangs" in words[-3] else 30)


def test_an_episode_that_always_kills_its_actor_is_failed_alone(tmp_path: Path) -> None:
    words = (*DEFEND, "--seeds", "0:8", "--step-cap", "5", "--episodes-per-unit", "4", "--run-id", "r")
    done = rollouts(tmp_path, "run", *words, "--policy", "tests.faults:DiesAtSeed3", code=1)
    found = episodes(tmp_path)
    assert [row["status"] == "completed" for row in found] == [seed != 3 for seed in range(8)]
    assert (found[3]["stage"], found[3]["seed"]) == ("worker", 3)
    assert "worker process has died" in found[3]["cause"]
    assert "1 episode failed, the first at stage worker: The actor is dead" in last_line(done)
    (failure,) = manifest(tmp_path)["failures"]
    assert failure["first_episodes"] == ["defend_the_center.rule.dies.3.0"]
    steps = pq.read_table(tmp_path / "runs/r/steps", columns=["seed"])["seed"].to_pylist()
    assert {seed: steps.count(seed) for seed in set(steps)} == {seed: 5 for seed in range(8) if seed != 3}
    rollouts(tmp_path, "verify", "runs/r")


def test_four_actors_write_down_every_episode_with_worker_episode_and_seed(tmp_path: Path) -> None:
    words = (*DEFEND, "--seeds", "0:24", "--step-cap", "30", "--actors", "4", "--cpus-per-actor", "0.25")
    rollouts(tmp_path, "run", *words, "--run-id", "r")
    logs = {path.stem: path.read_text().splitlines() for path in (tmp_path / "runs/r/logs").iterdir()}
    lines = {worker: [json.loads(line) for line in log] for worker, log in logs.items()}
    assert len(lines) == 4
    played = [line for log in lines.values() for line in log if line["event"] == "episode"]
    assert sorted(line["seed"] for line in played) == list(range(24))
    assert {line["episode"] for line in played} == {row["episode_id"] for row in episodes(tmp_path)}
    assert all((line["run"], line["actor"]) == ("r", worker) for worker, log in lines.items() for line in log)
    assert {row["actor"] for row in episodes(tmp_path)} == set(lines)


@pytest.mark.parametrize("pool", POOLS)
def test_a_headless_box_with_read_only_home_and_folder_is_enough(tmp_path: Path, pool: str) -> None:
    """Without that capability folder permissions hold for root too."""
    locked, out = tmp_path / "locked", tmp_path / "out"
    locked.mkdir(mode=0o555)

    def lose_rights() -> None:
        if os.geteuid() == 0:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE)

    surroundings = {k: v for k, v in environment(HOME=str(locked)).items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    words = ("run", *DEFEND, "--seeds", "0:2", "--step-cap", "4", "--pool", pool, "--out", str(out), "--run-id", "r")
    done = subprocess.run(
        command(*words),
        check=False,
        cwd=locked,
        env=surroundings,
        preexec_fn=lose_rights,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("starting r: 2 of 2 episodes owed")
    assert "alsa" not in done.stderr.lower()
    assert len(done.stderr.splitlines()) < 6
    assert list(locked.iterdir()) == []
