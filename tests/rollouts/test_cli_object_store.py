"""A run from the console to an S3 endpoint on loopback: interrupted, killed, resumed, verified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.store.storage import open_storage
from tests.console import Started, left_over, rollouts
from tests.s3_servers import new_bucket, object_store, uri_in
from tests.same_rows import assert_same_data

pytestmark = pytest.mark.slow
PLAY = ("run", "--scenario", "defend_the_center", "--policy", "random", "--seeds", "0:24", "--step-cap", "60")


@pytest.fixture(scope="module")
def out() -> Iterator[str]:
    with object_store() as place:
        yield uri_in(place, new_bucket(place), "runs")


def fetch(out: str, run_id: str, into: Path) -> Path:
    """A copy of the run's files on this disk."""
    storage = open_storage(out)
    for file in storage.list(run_id, recursive=True):
        target = into / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(storage.read_bytes(file.path))
    return into / run_id


def test_an_interrupted_and_a_killed_run_are_resumed_and_verified(tmp_path: Path, out: str) -> None:
    words = (*PLAY, "--out", out, "--run-id", "r")
    owed = [24]
    for hurt in ("interrupt", "kill"):
        run = Started(tmp_path, words)
        owed.append(run.wait_for("launch")["episodes_owed"])
        run.wait_for("progress")
        if hurt == "interrupt":
            run.ctrl_c()
        else:
            run.process.kill()
        code, _, err, _ = run.end()
        assert code == (130 if hurt == "interrupt" else -9), err
    last = events(rollouts(tmp_path, *words, "--json").stdout)
    assert owed[1] == 24
    assert last[0]["episodes_owed"] < owed[2] < 24
    assert (last[-1]["state"], last[-1]["owed"]) == ("complete", 0)
    place, _, options = out.partition("?")
    status = json.loads(rollouts(tmp_path, "status", f"{place}/r?{options}", "--json").stdout)
    assert (status["state"], status["episodes"]["completed"], len(status["last_lines"])) == ("complete", 24, 5)
    rollouts(tmp_path, "verify", f"{place}/r?{options}", "--replay", "2")
    rollouts(tmp_path, *PLAY, "--pool", "local", "--run-id", "calm")
    found = fetch(out, "r", tmp_path / "copy")
    assert_same_data(found, tmp_path / "runs/calm")
    assert not [path for path in found.rglob("*") if path.is_file() and ".staging" in path.parts]
    assert left_over() == []


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
