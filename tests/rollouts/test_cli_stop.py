"""`rollouts stop` and `rollouts status` beside a run that goes on."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rollouts.cli import main
from rollouts.run.lease import read_holder, write_holder
from tests.console import DEFEND, Started, rollouts
from tests.exported_runs import make
from tests.same_rows import assert_same_data


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left")
def test_a_run_is_stopped_from_another_terminal_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """Its driver is told as by a signal; what one does to a run on Ray is in test_cli_signals.py."""
    words = ("run", *DEFEND, "--seeds", "0:40", "--run-id", "r", "--pool", "local")
    run = Started(tmp_path, words)
    run.wait_for("progress")
    going = json.loads(rollouts(tmp_path, "status", "r", "--json").stdout)
    assert (going["state"], going["driver"]["pid"]) == ("running", run.process.pid)
    said = rollouts(tmp_path, "stop", "r").stdout
    assert f"{tmp_path}/runs/r: interrupted" in said
    code, events, _, _ = run.end()
    assert (code, events[-1]["state"]) == (143, "interrupted")
    left = json.loads(rollouts(tmp_path, "status", "r", "--json").stdout)
    assert left["episodes"]["completed"] >= going["episodes"]["completed"]
    assert left["episodes"]["owed"] == events[-1]["owed"] > 0
    rollouts(tmp_path, *words)
    rollouts(tmp_path, *words[:-4], "--run-id", "calm", "--pool", "local")
    assert_same_data(tmp_path / "runs/r", tmp_path / "runs/calm")
    assert rollouts(tmp_path, "stop", "r").stdout.startswith("nobody drives it\n")


def test_a_process_of_another_machine_is_named_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make(tmp_path).folder
    path = folder.path("lease.json")
    mine = read_holder(folder.storage, path)
    assert mine is not None
    write_holder(folder.storage, path, replace(mine, host="node-7", pid=4321, heartbeat=time.time(), released=False))
    assert main(["stop", str(tmp_path / "known")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rollouts: {tmp_path}/known is driven by process 4321 on node-7, which cannot be told from")
    write_holder(folder.storage, path, replace(mine, host="node-7", heartbeat=time.time() - 61, released=False))
    assert main(["stop", str(tmp_path / "known")]) == 0
    assert capsys.readouterr().out.startswith("nobody drives it\n")


def test_where_there_is_no_run_nobody_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", str(tmp_path / "gone")]) == 2
    assert capsys.readouterr().err == f"rollouts: there is no run in {tmp_path}/gone\n"
