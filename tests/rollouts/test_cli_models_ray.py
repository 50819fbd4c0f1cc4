"""Models that play, in processes of their own: one governor for all actors, what a lost actor had in flight holds up
nobody, and Ctrl-C in the middle of a call."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import completion
from tests.console import Started, rollouts

pytestmark = pytest.mark.slow
GAME = ("--scenario", "defend_the_center", "--frames", "none", "--step-cap", "8", "--run-id", "r", "--json")


def done(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_many_actors_and_graders_share_one_governor(tmp_path: Path, nothing_is_left: None) -> None:
    """Actors of an eighth of a CPU: as many as may have a request in flight. With graders, never more than those at
    once."""
    graded = ("--grade", "llm", "--grader-model", "judge", "--in-flight", "2")
    with FakeEndpoint(delay_s=0.05) as fake:
        said = rollouts(
            tmp_path, "run", *GAME, *graded, "--policy", "chat:m", "--seeds", "0:3", "--base-url", fake.base_url
        )
    told = done(said.stdout)
    assert json.loads(said.stdout.splitlines()[0])["actors"] == 2
    assert fake.most_in_flight == 2
    models = Counter(request.body["model"] for request in fake.requests)
    assert (models["judge"], models["m"]) == (3, 3 * 8 + 1)
    calls = {one["kind"]: one for one in told["grading"]["calls"]}
    assert calls["policy"]["tries"] == 25
    assert calls["policy"]["queue_ms"]["p95"] > 0
    rows = pq.read_table(tmp_path / "runs/r/steps").to_pylist()
    assert (len(rows), {row["out_of_schema"] for row in rows}) == (24, {False})
    assert rollouts(tmp_path, "verify", "runs/r").returncode == 0


def test_actors_killed_in_the_middle_of_a_call_hold_up_nobody(tmp_path: Path, no_process_is_left: None) -> None:
    """With one request at a time, a turn that dies with its actor would block all others for 90 s."""
    with FakeEndpoint(delay_s=0.3) as fake:
        words = ("run", *GAME[:-1], "--grade", "none", "--policy", "chat:m", "--seeds", "0:2", "--actors", "2")
        words = (*words, "--cpus-per-actor", "0.6")  # a process each
        run = Started(tmp_path, (*words, "--in-flight", "1", "--base-url", fake.base_url))
        assert fake.wait_until(lambda: len(fake.requests) >= 4 and fake.in_flight == 1, 60)
        killed = [actor.kill() for actor in actors_of(run.process.pid)]
        asked = len(fake.requests)
        code, events, errors, took_s = run.end()
    assert (len(killed), code, took_s < 60) == (2, 0, True), errors
    assert len(fake.requests) >= asked + 2 * 8 - 1
    rows = pq.read_table(tmp_path / "runs/r/steps").to_pylist()
    assert Counter(row["episode_index"] for row in rows) == {0: 16}
    (calls,) = events[-1]["grading"]["calls"]
    assert calls["calls"] >= len(fake.requests) - 2, "what was answered before the kill is on file"


def actors_of(driver: int) -> list[psutil.Process]:
    """The processes that play, of the Ray that `driver` has started."""
    family = psutil.Process(driver).children(recursive=True)
    return [process for process in family if process.name().startswith("ray::RolloutAc")]


def test_ctrl_c_does_not_wait_for_a_model(tmp_path: Path, nothing_is_left: None) -> None:
    with FakeEndpoint(lambda request: completion("attack", delay_s=60.0 if request.number > 3 else 0.0)) as fake:
        words = ("run", *GAME[:-1], "--grade", "none", "--policy", "chat:m", "--answer", "plain", "--pool", "local")
        run = Started(tmp_path, (*words, "--base-url", fake.base_url))
        assert fake.wait_until(lambda: len(fake.requests) == 4, 60)
        run.ctrl_c()
        code, _, errors, took_s = run.end()
    assert (code, took_s < 15) == (130, True), errors
    assert "Traceback" not in errors
