"""The real engine on the real Ray: what is lost, what is left, and how fast it stops."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from actors.capacity import Share
from actors.cluster import Cluster, ClusterSettings
from rollouts.driver import Remark, RunEvent
from rollouts.pools.local_pool import LocalPool
from rollouts.pools.patience import Limits
from rollouts.pools.players import MakeWorker
from rollouts.pools.pool import Pool
from rollouts.run.run_folder import RunFolder
from tests.actors.real_run import play
from tests.processes import descendants
from tests.scenario_files import write_line

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def cluster(ray_dir: str) -> Iterator[Cluster]:
    cluster = Cluster(ClusterSettings(cpus=2, temp_dir=ray_dir))
    yield cluster
    cluster.close()


def ray_pool(make: MakeWorker) -> Pool:
    from actors.ray_pool import RayPool

    return RayPool(make, 2, Share(1, 0), look_every_s=0.2)


def hashes(folder: RunFolder) -> dict[str, str]:
    """Episode id → trajectory hash, of all that is committed; twice is an error."""
    found: dict[str, str] = {}
    for path in sorted(Path(folder.describe("episodes")).glob("*.parquet")):
        for row in pq.read_table(path, columns=["episode_id", "trajectory_hash"]).to_pylist():
            assert row["episode_id"] not in found
            found[row["episode_id"]] = row["trajectory_hash"]
    return found


def test_a_scenario_file_reaches_actors_whose_node_does_not_have_it(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    path = write_line(there)

    def elsewhere(make: MakeWorker) -> Pool:
        shutil.rmtree(there)
        return ray_pool(make)

    outcome, folder = play(tmp_path / "ray", elsewhere, episodes=1, scenario=str(path))
    assert (outcome.state, sorted(hashes(folder))) == (
        "complete",
        ["my_line.rule.oracle.3.0", "my_line.rule.oracle.4.0"],
    )


def test_actors_and_this_process_play_the_same(tmp_path: Path) -> None:
    alone, here = play(tmp_path / "local", lambda make: LocalPool(make.here()))
    shared, there = play(tmp_path / "ray", ray_pool)
    assert (alone.state, shared.state) == ("complete", "complete")
    assert len(hashes(here)) == 4
    assert hashes(here) == hashes(there)
    logs = [path.read_text() for path in Path(there.describe("logs")).iterdir()]
    assert sum(log.count('"event": "episode"') for log in logs) == 4
    assert not descendants("vizdoom")


def test_each_result_of_four_actors_is_a_line_in_a_file_of_its_own_where_a_script_leads_them(tmp_path: Path) -> None:
    """Lines of equal episodes differ in numbers alone, and are not taken for repeats."""

    def four(make: MakeWorker) -> Pool:
        from actors.ray_pool import RayPool

        return RayPool(make, 4, Share(0.25, 0))

    outcome, folder = play(tmp_path, four, episodes=10)
    assert (outcome.state, outcome.committed) == ("complete", 20)
    logs = {path.stem: path.read_text().splitlines() for path in Path(folder.describe("logs")).iterdir()}
    lines = [(name, json.loads(line)) for name, log in logs.items() for line in log]
    assert len(logs) == 4
    assert all((line["run"], line["actor"]) == (folder.run_id, name) for name, line in lines)
    played = [line for _, line in lines if line["event"] == "episode"]
    assert sorted(line["episode"] for line in played) == sorted(hashes(folder))
    assert all(line["episode"].split(".")[3:] == [str(line["seed"]), str(line["index"])] for line in played)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_engine_that_dies_or_hangs_changes_no_row(tmp_path: Path, number: signal.Signals) -> None:
    hit: list[int] = []
    remarks: list[str] = []

    def hurt_one(event: RunEvent) -> None:
        if isinstance(event, Remark):
            remarks.append(event.text)
        elif not hit:
            for engine in descendants("vizdoom")[:1]:
                engine.send_signal(number)
                hit.append(engine.pid)

    limits = Limits(stall_s=3.0, first_decision_s=6.0) if number == signal.SIGSTOP else Limits()
    outcome, folder = play(tmp_path / "hurt", ray_pool, episodes=20, limits=limits, on_event=hurt_one)
    _, undisturbed = play(tmp_path / "well", lambda make: LocalPool(make.here()), episodes=20)
    assert hit
    assert outcome.first_failure is None
    assert outcome.state == "complete"
    assert hashes(folder) == hashes(undisturbed)
    assert (number == signal.SIGSTOP) == any("hangs" in text for text in remarks)


def test_a_signal_ends_it_in_time_and_nothing_is_left(tmp_path: Path, ray_dir: str) -> None:
    command = [sys.executable, "-m", "tests.actors.real_run", str(tmp_path)]
    environment = {**os.environ, "RAY_DIR": ray_dir, "PYTHONPATH": str(ROOT)}
    driver = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "committed\n"
    family = psutil.Process(driver.pid).children(recursive=True)
    assert descendants("raylet", driver.pid)
    assert descendants("vizdoom", driver.pid)
    driver.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    out, _ = driver.communicate(timeout=30)
    took_s = time.monotonic() - begun
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert driver.returncode == 128 + signal.SIGTERM
    state, committed, owed = out.splitlines()[-1].split()
    assert (state, int(committed) + int(owed)) == ("interrupted", 1000)
    assert len(list(tmp_path.glob("*/episodes/*.parquet"))) == int(committed)
    assert took_s < 10  # 2 s where nothing else runs
