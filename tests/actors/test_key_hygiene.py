"""Where a key may not be: a run on a cluster with a dashboard, whose endpoint repeats the key in its errors.

A model plays and models grade: all that calls any.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import FakeReply, FakeRequest, failing, plausible

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
MARKER = "sk-marker-4f9ab2107c6e"
HEAD = """
import json, os, sys, ray
context = ray.init(
    address="local", num_cpus=2, include_dashboard=True, dashboard_host="127.0.0.1", log_to_driver=False,
    object_store_memory=100 * 2**20, _temp_dir=os.environ["RAY_DIR"],
)
print(json.dumps([context.address_info["gcs_address"], context.dashboard_url]), flush=True)
sys.stdin.read()
"""
PAGES = (
    *("api/jobs/", "nodes?view=summary", "nodes?view=details", "logical/actors", "api/cluster_status"),
    *(f"api/v0/{what}?detail=1" for what in ("actors", "tasks", "workers", "runtime_envs", "jobs", "objects")),
)


def environment(ray_dir: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    told = {"PYTHONPATH": str(ROOT), "RAY_DIR": ray_dir, "OPENAI_API_KEY": MARKER, "RAY_AUTH_MODE": "disabled"}
    return {**inherited, **told, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}


@contextmanager
def head(ray_dir: str) -> Iterator[tuple[str, str]]:
    """A cluster whose processes have the key in their environment, as its nodes must: (address, dashboard)."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD],
        env=environment(ray_dir),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address, dashboard = json.loads(process.stdout.readline())
        yield address, f"http://{dashboard}"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=30)


class Onlooker:
    """Reads the command lines of all processes, again and again, while it is entered."""

    def __init__(self) -> None:
        self.looks = 0
        self.seen: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._over.wait(0.1):
            self.looks += 1
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    self.seen |= {str(path)} if MARKER.encode() in path.read_bytes() else set()


def page(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read()
    except OSError as error:
        return getattr(error, "code", 0), b""


def echoing(request: FakeRequest) -> FakeReply:
    """Every third reply is an error that repeats the key."""
    if request.number % 3 == 0:
        return failing(500, f"Incorrect API key provided: {MARKER}. (Authorization: Bearer {MARKER})")
    return plausible(request)


def holding(folder: Path) -> list[str]:
    """The files below `folder` that hold the key."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        with suppress(OSError):
            found += [str(path)] if MARKER.encode() in path.read_bytes() else []
    return found


def test_a_key_is_nowhere_but_in_the_environment(ray_dir: str, tmp_path: Path) -> None:
    words = ("run", "--scenario", "defend_the_center", "--seeds", "0:2", "--step-cap", "10", "--policy", "chat:m")
    judged = ("--grade", "llm", "--grader-model", "judge", "--summarize", "llm", "--actors", "1", "--run-id", "r")
    with head(ray_dir) as (address, dashboard), FakeEndpoint(echoing) as fake, Onlooker() as onlooker:
        command = [sys.executable, "-m", "rollouts.cli", *words, *judged, "--address", address]
        done = subprocess.run(
            [*command, "--base-url", fake.base_url, "--json"],
            cwd=tmp_path,
            env=environment(ray_dir),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        pages = {name: page(f"{dashboard}/{name}") for name in PAGES}
        logs, n_logs = holding(Path(ray_dir)), len(list(Path(ray_dir).rglob("*.log")))
    assert done.returncode in (0, 1), done.stderr
    assert {request.has_key for request in fake.requests} == {True}
    assert _section(done.stdout)["calls"]
    assert MARKER not in done.stdout + done.stderr
    assert holding(tmp_path) == []
    assert (logs, n_logs > 3) == ([], True)
    assert (onlooker.seen, onlooker.looks > 5) == (set(), True)
    assert {name for name, (status, _) in pages.items() if status == 200} >= {"api/jobs/", "api/v0/actors?detail=1"}
    assert [name for name, (_, content) in pages.items() if MARKER.encode() in content] == []


def _section(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.splitlines()[-1])["grading"]
    return found
