"""Runs as jobs of a real cluster: a head with a dashboard in token mode, started as README says.

Ports and folder are the test's own. One head for the whole file.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint
from tests.console import OBEYS_CTRL_C, ROOT, command
from tests.onnx_files import mean_colour

pytestmark = pytest.mark.slow
KEY = "sk-marker-4f9ab2107c6e"
PATIENCE_S = 120.0
SHORT = ("--scenario", "defend_the_center", "--actors", "1", "--frames", "png", "--step-cap", "10")
LONG = ("--scenario", "defend_the_center", "--actors", "1", "--frames", "none", "--episodes-per-unit", "1")


@dataclass(frozen=True)
class Head:
    """`url`: the dashboard's; `address`: where drivers join; `environment`: that of a shell that has the token."""

    url: str
    address: str
    environment: dict[str, str]

    def run(self, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=folder,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def rollouts(self, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(folder, *command(*words), **more)

    def page(self, path: str) -> str:
        token = {"Authorization": f"Bearer {self.environment['RAY_AUTH_TOKEN']}"}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=token), timeout=30) as answer:
            return str(answer.read().decode())


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@pytest.fixture(scope="module")
def head(ray_dir: str) -> Iterator[Head]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "OPENAI_"))}
    binaries = str(Path(sys.executable).parent)
    told = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {**inherited, **told, "PYTHONPATH": str(ROOT), "PATH": f"{binaries}:{os.environ['PATH']}"}
    words = ("ray", "start", "--head", "--block", "--port=0", "--dashboard-host=127.0.0.1", "--num-cpus=2")
    ports = ("--dashboard-port=0", "--dashboard-agent-listen-port=0", f"--ray-client-server-port={free_port()}")
    small = ("--min-worker-port=0", "--max-worker-port=0", f"--temp-dir={ray_dir}", "--object-store-memory=100000000")
    log = Path(ray_dir) / "head.log"
    with log.open("w") as out:
        process = subprocess.Popen([*words, *ports, *small], env=environment, stdout=out, stderr=out, process_group=0)
    try:
        url, address = where(log, process), (Path(ray_dir) / "ray_current_cluster").read_text()
        yield Head(url, address, environment)
    finally:
        end(process)


def where(log: Path, process: subprocess.Popen[bytes]) -> str:
    """The URL that `ray start` prints for the submission of jobs."""
    over = time.monotonic() + PATIENCE_S
    while time.monotonic() < over:
        told = log.read_text()
        assert process.poll() is None, told
        if "RAY_API_SERVER_ADDRESS='" in told:
            return told.partition("RAY_API_SERVER_ADDRESS='")[2].partition("'")[0]
        time.sleep(0.1)
    raise AssertionError(told)


def end(process: subprocess.Popen[bytes]) -> None:
    """All that the head has started: it ends them itself, and what is left after that is killed."""
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    try:
        process.wait(timeout=30)
    finally:
        for one in family:
            with suppress(psutil.Error):
                one.kill()
        process.kill()
        psutil.wait_procs(family, timeout=10)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """That of R6: 150 MB of data, a `.git`, and a model that git ignores."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("/models/\n/data/\n/runs/\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.bin").touch()
    os.truncate(tmp_path / "data/x.bin", 150_000_000)
    (tmp_path / "models").mkdir()
    mean_colour(tmp_path / "models/p.onnx")
    return tmp_path


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_run_is_submitted_followed_and_read(
    head: Head, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """R6, and keys: from a file of the nodes, never in what Ray stores and shows."""
    keys = tmp_path_factory.mktemp("secret") / "keys"
    keys.write_text(f"OPENAI_API_KEY={KEY}\n")
    with FakeEndpoint() as fake:
        judged = ("--grade", "llm", "--grader-model", "judge", "--base-url", fake.base_url, "--key-file", str(keys))
        words = (*SHORT, "--seeds", "0:2", "--policy", "onnx:models/p.onnx", "--run-id", "r", *judged, "--json")
        done = head.rollouts(project, "submit", *words, "--address", head.url, OPENAI_API_KEY=KEY)
    assert done.returncode == 0, done.stdout + done.stderr
    told = events(done.stdout)
    assert [told[0]["event"], told[-1]["event"], told[-1]["state"]] == ["launch", "done", "complete"]
    assert told[-1]["location"] == f"{project}/runs/r"
    assert "2 files, 0.0 MB" in done.stderr
    status = json.loads(head.rollouts(project, "status", "r", "--json").stdout)
    assert (status["state"], status["episodes"]["completed"]) == ("complete", 2)
    assert [grader["graded"] for grader in status["grading"]["graders"]] == [2]
    assert {request.has_key for request in fake.requests} == {True}
    shown = head.page("/api/jobs/") + head.page("/api/v0/actors?detail=1") + head.page("/api/v0/runtime_envs?detail=1")
    assert "onnx:models/p.onnx" in shown
    assert KEY not in shown + done.stdout + done.stderr


def test_each_episode_of_a_job_is_in_the_log_of_the_actor_that_played_it(head: Head, tmp_path: Path) -> None:
    """R7: 4 actors whose lines differ only in numbers. A file each, and every line says who, which episode and seed."""
    four = ("--scenario", "defend_the_center", "--actors", "4", "--cpus-per-actor", "0.5", "--episodes-per-unit", "1")
    words = (*four, "--frames", "none", "--seeds", "0:40", "--run-id", "r", "--grade", "none")
    done = head.rollouts(tmp_path, "submit", *words, "--address", head.url)
    assert done.returncode == 0, done.stdout + done.stderr
    told = {file: events(file.read_text()) for file in (tmp_path / "runs/r/logs").glob("actor-*.jsonl")}
    assert all({line["actor"] for line in lines} == {file.stem} for file, lines in told.items())
    episodes = [line for lines in told.values() for line in lines if line["event"] == "episode"]
    assert sorted(line["seed"] for line in episodes) == list(range(40))
    assert {line["episode"] for line in episodes} == {f"defend_the_center.rule.oracle.{n}.0" for n in range(40)}
    assert len(told) == 4


def test_the_exit_status_of_the_job_is_ours(head: Head, tmp_path: Path) -> None:
    """Whether `--out` can be written to is for the nodes to say."""
    (tmp_path / "runs").write_text("")
    done = head.rollouts(tmp_path, "submit", *SHORT, "--address", head.url)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith(f"rollouts: cannot write to {tmp_path}/runs: ")


def test_a_job_outlives_who_watches_it_and_is_stopped_with_what_is_whole(head: Head, tmp_path: Path) -> None:
    words = command("submit", *LONG, "--seeds", "0:500", "--run-id", "r", "--json", "--address", head.url)
    watching = subprocess.Popen(
        [*OBEYS_CTRL_C, *words],
        cwd=tmp_path,
        env=head.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    told = map(json.loads, watching.stdout)
    seen = next(one for one in told if one["event"] == "progress" and one["episodes"])
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 130
    last = err.splitlines()[-1]
    assert "goes on without being watched; watch it: ray job logs --follow" in last
    job = shlex.split(last.partition("stop it: ")[2])[2]
    assert json.loads(head.page(f"/api/jobs/{job}"))["status"] == "RUNNING"
    stopped = head.rollouts(tmp_path, *shlex.split(last.partition("stop it: rollouts ")[2]))
    assert (stopped.returncode, stopped.stdout.splitlines()[-1]) == (0, f"{job}: STOPPED"), stopped.stderr
    assert "rollouts: interrupted with" in stopped.stdout
    status = json.loads(head.rollouts(tmp_path, "status", "r", "--json").stdout)
    assert (status["state"], status["driver"]["lives"]) == ("interrupted", False)
    assert status["episodes"]["completed"] >= seen["episodes"]
    assert status["units"]["committed"] == status["episodes"]["completed"]
    again = head.rollouts(tmp_path, "stop", job, "--address", head.url)
    assert (again.returncode, again.stdout) == (0, f"{job} has ended already: STOPPED\n")


def test_rays_own_command_does_it_too_and_a_model_that_it_leaves_out_is_named(head: Head, project: Path) -> None:
    words = (*SHORT, "--seeds", "0:1", "--policy", "onnx:models/p.onnx", "--run-id", "plain", "--address", head.url)
    told = head.rollouts(project, "submit", *words, "--dry-run").stdout
    by_hand = shlex.split(told.splitlines()[-1].removeprefix("by hand: "))
    left_out = head.run(project, *by_hand)
    assert left_out.returncode == 1
    assert 'models/p.onnx" on ' in left_out.stdout
    (project / ".gitignore").write_text("/data/\n/runs/\n")
    done = head.run(project, *by_hand)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(head.rollouts(project, "status", "plain", "--json").stdout)["state"] == "complete"


@pytest.mark.parametrize(("mode", "token"), [("token", "0" * 64), ("disabled", "")])
def test_a_wrong_token_or_none_is_one_line(head: Head, tmp_path: Path, mode: str, token: str) -> None:
    without = {"RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": token}
    sent = head.rollouts(tmp_path, "submit", *SHORT, "--address", head.url, **without)
    assert (sent.returncode, sent.stdout, sent.stderr.count("\n")) == (2, "", 1), sent.stderr
    assert head.url in sent.stderr
    assert "RAY_AUTH_TOKEN" in sent.stderr
    joined = head.rollouts(tmp_path, "run", *SHORT, "--address", head.address, **without)
    assert (joined.returncode, joined.stdout) == (2, "")
    assert joined.stderr.splitlines()[-1].startswith(
        f"rollouts: Ray at {head.address} refuses the token that is set here"
    )


OTHER_PYTHON = """
import os, platform
platform.python_version = lambda: "3.9.1"
from actors.cluster import Cluster, ClusterSettings
from rollouts.errors import UsageError
try:
    Cluster(ClusterSettings(os.environ["WHERE"]))
except UsageError as error:
    print(error)
"""


def test_a_driver_of_another_python_is_told_both_versions(head: Head, tmp_path: Path) -> None:
    done = head.run(tmp_path, sys.executable, "-c", OTHER_PYTHON, WHERE=head.address)
    here = f"Python {platform.python_version()}, and here it is"
    assert done.stdout.startswith(f"Ray at {head.address} is {metadata.version('ray')} on {here}"), done.stderr
    assert "on Python 3.9.1" in done.stdout


def test_the_url_of_a_dashboard_is_not_where_drivers_join(head: Head, tmp_path: Path) -> None:
    done = head.rollouts(tmp_path, "run", *SHORT, "--address", head.url)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{head.url} is the URL of a dashboard, to which rollouts submit sends a job" in done.stderr


def test_no_such_job_is_one_line(head: Head, tmp_path: Path) -> None:
    done = head.rollouts(tmp_path, "stop", "raysubmit_nobody", "--address", head.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"rollouts: {head.url} has no job 'raysubmit_nobody': rollouts submit printed its id\n"
