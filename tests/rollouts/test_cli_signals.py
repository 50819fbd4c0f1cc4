"""Ctrl-C, SIGTERM and a second driver, from the console: what is whole is kept, and the same command goes on."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from rollouts.signals import GRACE_S
from tests.console import DEFEND, POOLS, Started, episodes, left_over, rollouts
from tests.processes import descendants
from tests.same_rows import assert_same_data

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_is_left")]
TWELVE = ("run", *DEFEND, "--seeds", "0:12")


@pytest.fixture(scope="module")
def calm_twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twelve")
    rollouts(folder, *TWELVE, "--pool", "local", "--run-id", "calm")
    return folder / "runs/calm"


@pytest.mark.parametrize(("number", "pool"), [(signal.SIGTERM, "ray"), (signal.SIGINT, "local")])
def test_a_signal_stops_a_run_that_the_same_command_then_finishes(
    tmp_path: Path, calm_twelve: Path, pool: str, number: int
) -> None:
    run = Started(tmp_path, (*TWELVE, "--pool", pool, "--run-id", "r"))
    run.wait_for("progress")
    if number == signal.SIGINT:
        run.ctrl_c()
    else:
        run.process.send_signal(number)
    code, events, err, took_s = run.end()
    assert code == 128 + number
    assert took_s < 10  # 2 s where nothing else runs; two Rays side by side take their time
    assert "give the same command again" in err.splitlines()[-1]
    done = events[-1]
    assert (done["event"], done["state"], done["exit_code"]) == ("done", "interrupted", 128 + number)
    assert 0 < done["owed"] < 12
    assert left_over() == []
    assert len(episodes(tmp_path)) == 12 - done["owed"]
    again = rollouts(tmp_path, *run.words, "--json")
    assert json.loads(again.stdout.splitlines()[0])["episodes_owed"] == done["owed"]
    assert_same_data(tmp_path / "runs/r", calm_twelve)
    rollouts(tmp_path, "verify", "runs/r")


@pytest.mark.parametrize("pool", POOLS)
def test_the_second_ctrl_c_stops_at_once(tmp_path: Path, pool: str) -> None:
    words = ("run", *DEFEND, "--policy", "tests.faults:Hangs", "--pool", pool, "--run-id", "r")
    run = Started(tmp_path, words)
    run.wait_for("launch")
    time.sleep(3.0 if pool == "ray" else 1.0)
    run.ctrl_c()
    time.sleep(0.1)
    run.ctrl_c()
    code, _, err, took_s = run.end()
    assert code == 128 + signal.SIGINT
    assert took_s < GRACE_S  # after that it would end by itself
    assert "interrupted" in err
    assert "Traceback" not in err


def test_a_ctrl_c_while_ray_starts_stops_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    run = Started(tmp_path, ("run", *DEFEND, "--run-id", "r"))
    while not descendants("raylet", run.process.pid):
        time.sleep(0.02)
    run.ctrl_c()
    code, _, err, took_s = run.end()
    assert code == 128 + signal.SIGINT
    assert took_s < GRACE_S  # after that it would end by itself
    assert err.splitlines()[-1].endswith("interrupted; to go on, give the same command again")
    assert "Traceback" not in err


def test_two_drivers_do_not_share_a_run(tmp_path: Path) -> None:
    words = ("run", *DEFEND, "--seeds", "0:40", "--pool", "local", "--run-id", "r")
    first = Started(tmp_path, words)
    first.wait_for("progress")
    second = rollouts(tmp_path, *words, code=1)
    assert second.stderr.startswith(f"rollouts: {tmp_path}/runs/r is in use by process {first.process.pid} on ")
    assert second.stderr.count("\n") == 1
    first.process.kill()
    first.end()
    rollouts(tmp_path, *words)
    assert len(episodes(tmp_path)) == 40
