"""Runs from the console that go wrong: they end by themselves, say why, and what they leave is whole."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.console import Started, command, environment, last_line, left_over, lost_memory, rollouts
from tests.processes import descendants
from tests.same_rows import assert_same_data

pytestmark = pytest.mark.slow
POOLS = ("ray", "local")
DEFEND = ("--scenario", "defend_the_center", "--frames", "none")
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    memory = lost_memory()
    yield
    assert left_over() == []
    assert lost_memory() <= memory


def manifest(folder: Path, run_id: str = "r") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / run_id / "manifest.json").read_text())
    return found


def episodes(folder: Path, run_id: str = "r") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "runs" / run_id / "episodes").to_pylist()
    return sorted(found, key=lambda row: (row["seed"], row["unit"]))


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
    assert "1 episodes failed, the first at stage worker: The actor is dead" in last_line(done)
    (failure,) = manifest(tmp_path)["failures"]
    assert failure["first_episodes"] == ["defend_the_center.rule.dies.3.0"]
    steps = pq.read_table(tmp_path / "runs/r/steps", columns=["seed"])["seed"].to_pylist()
    assert {seed: steps.count(seed) for seed in set(steps)} == {seed: 5 for seed in range(8) if seed != 3}
    rollouts(tmp_path, "verify", "runs/r")


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
    assert took_s < 5  # 2 s where nothing else runs; two Rays side by side take their time
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
    assert took_s < 2.0
    assert "interrupted" in err
    assert "Traceback" not in err


def test_a_ctrl_c_while_ray_starts_stops_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    run = Started(tmp_path, ("run", *DEFEND, "--run-id", "r"))
    while not descendants("raylet", run.process.pid):
        time.sleep(0.02)
    run.ctrl_c()
    code, _, err, took_s = run.end()
    assert code == 128 + signal.SIGINT
    assert took_s < 2.0
    assert err.splitlines()[-1].endswith("the same command again goes on where it was")
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


KILLER = """
import os, signal, sys
import rollouts.store.storage as storage
moment, path = sys.argv[1:3]

class Killing(storage.LocalStorage):
    '''Dies before, in the middle of, or after the first operation on a file of that name.'''

    def _die(self, when, name):
        if when == moment and path in name and '.staging' not in name:
            os.kill(os.getpid(), signal.SIGKILL)

    def move(self, source, target, overwrite=False):
        self._die('before', target)
        super().move(source, target, overwrite)
        self._die('after', target)

    def put_file(self, local, target):
        self._die('before', target)
        super().put_file(local, target)
        self._die('after', target)

    def write_bytes(self, target, data):
        self._die('before', target)
        if moment == 'half' and path in target:
            full = self.local_path(target)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.with_name('.' + full.name + '.tmp-00c0ffee').write_bytes(data[: len(data) // 2])
        self._die('half', target)
        super().write_bytes(target, data)
        self._die('after', target)

storage.LocalStorage = Killing
from rollouts.cli import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(
    ("moment", "path"),
    [
        *(("half", "lease.json"), ("after", "lease.json")),
        *(("before", "plan/"), ("after", "plan/")),
        *(("half", "run.json"), ("after", "run.json")),
        *(("before", "steps/part-0000001"), ("after", "steps/part-0000001"), ("after", "episodes/part-0000001")),
        *(("half", "README.md"), ("half", "manifest.json"), ("after", "manifest.json")),
    ],
)
def test_a_driver_killed_at_a_named_step_is_made_good_by_the_same_command(
    tmp_path: Path, calm: Path, moment: str, path: str
) -> None:
    killed = subprocess.run(
        [command()[0], "-c", KILLER, moment, path, *SMALL],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    rollouts(tmp_path, *SMALL)
    assert_same_data(tmp_path / "runs/r", calm / "runs/r")
    assert files(tmp_path) == files(calm)
    rollouts(tmp_path, "verify", "runs/r")


TWELVE = ("run", *DEFEND, "--seeds", "0:12")
SMALL = ("run", *DEFEND, "--seeds", "0:3", "--step-cap", "4", "--pool", "local", "--run-id", "r")


@pytest.fixture(scope="module")
def calm_twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twelve")
    rollouts(folder, *TWELVE, "--pool", "local", "--run-id", "calm")
    return folder / "runs/calm"


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calm")
    rollouts(folder, *SMALL)
    return folder


def files(folder: Path) -> list[str]:
    found = (str(path.relative_to(folder)) for path in (folder / "runs").rglob("*"))
    return sorted(found)


def test_four_actors_write_down_every_episode_with_worker_episode_and_seed(tmp_path: Path) -> None:
    words = (*DEFEND, "--seeds", "0:24", "--step-cap", "30", "--actors", "4", "--cpus-per-actor", "0.25")
    rollouts(tmp_path, "run", *words, "--run-id", "r")
    logs = {path.stem: path.read_text().splitlines() for path in (tmp_path / "runs/r/logs").iterdir()}
    lines = {worker: [json.loads(line) for line in log] for worker, log in logs.items()}
    assert len(lines) == 4
    played = [line for log in lines.values() for line in log if line["event"] == "episode"]
    assert sorted(line["seed"] for line in played) == list(range(24))
    assert {line["episode"] for line in played} == {row["episode_id"] for row in episodes(tmp_path)}
    assert all(line["worker"] == worker for worker, log in lines.items() for line in log)
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
