"""Real time from the console, on the real engine: rows, evidence, what replay can say, and what is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rollouts.cli import main

pytestmark = pytest.mark.slow

SMALL = ("--scenario", "defend_the_center", "--seeds", "0:2", "--frames", "none", "--pool", "local")
HEALTH = ("--scenario", "health_gathering", "--seeds", "0:2", "--frames", "none", "--pool", "local")


def run(folder: Path, *words: str, run_id: str = "r", code: int = 0) -> Path:
    assert main(["run", *words, "--out", str(folder), "--run-id", run_id]) == code
    return folder / run_id


def rows(where: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(where / table).to_pylist()
    return sorted(found, key=lambda row: (row["seed"], row.get("tick", 0)))


@pytest.mark.parametrize("policy", ["oracle", "random"])
@pytest.mark.parametrize("world", [SMALL, HEALTH], ids=["defend_the_center", "health_gathering"])
def test_a_set_latency_of_0_plays_as_the_game_that_waits(tmp_path: Path, policy: str, world: tuple[str, ...]) -> None:
    words = (*world, "--policy", policy, "--grade", "none")
    waits = run(tmp_path, *words, run_id="waits")
    at_once = run(tmp_path, *words, "--realtime", "hold", "--latency-ms", "0", run_id="at_once")
    for name in ("trajectory_hash", "metric", "total_reward", "end_reason", "steps"):
        assert [r[name] for r in rows(at_once, "episodes")] == [r[name] for r in rows(waits, "episodes")]
    assert {r["waited_tics"] for r in rows(at_once, "steps")} == {0}
    assert {r["waited_tics"] for r in rows(waits, "steps") + rows(waits, "episodes")} == {None}


def test_the_rows_of_a_slow_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """200 ms are 7 tics: the policy's snapshots lie 11 tics apart, and the last answer came too late."""
    where = run(tmp_path, *SMALL, "--policy", "oracle", "--realtime", "idle", "--latency-ms", "200")
    printed = capsys.readouterr().out
    for episode in rows(where, "episodes"):
        steps = [row for row in rows(where, "steps") if row["seed"] == episode["seed"]]
        tics = [row["game_tic"] for row in steps]
        assert {later - earlier for earlier, later in pairwise(tics)} == {11}
        assert [row["waited_tics"] for row in steps[:-1]] == [7] * (len(steps) - 1)
        assert episode["waited_tics"] == sum(row["waited_tics"] for row in steps)
        assert episode["total_reward"] == sum(row["reward"] for row in steps)
        assert episode["end_reason"] == "death"
        sent = [row["effective_action"] for row in steps]
        assert None not in sent[:-1]
        assert (sent[-1] is None) == (steps[-1]["acted_by"] is None)
    manifest = json.loads((where / "manifest.json").read_text())
    assert manifest["identity"]["realtime"] == {"meanwhile": "idle", "latency_ms": 200.0}
    assert manifest["results"][0]["rubric_agreement"]["agreement"] == 1.0
    note = "real time (idle): the game went on while the policy thought, 200 ms a decision, as set"
    assert note in printed
    assert note in (where / "README.md").read_text().replace("\\", "")
    assert main(["verify", str(where), "--replay", "2"]) == 0
    assert "2 episodes played again" in capsys.readouterr().out


def test_survival_is_the_time_that_the_player_lived(tmp_path: Path) -> None:
    """Until the last decision everything counts in full; a late one's waiting counts as far as it went."""
    where = run(tmp_path, *HEALTH, "--policy", "oracle", "--realtime", "hold", "--latency-ms", "1000")
    for episode in rows(where, "episodes"):
        steps = [row for row in rows(where, "steps") if row["seed"] == episode["seed"]]
        sent = sum(row["effective_action"] is not None for row in steps)
        assert episode["metric"] == pytest.approx((4 * sent + sum(row["waited_tics"] for row in steps)) / 35)


def test_a_measured_latency_cannot_be_replayed_and_verify_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = run(tmp_path, *SMALL, "--step-cap", "5", "--policy", "tests.doubles:EchoBackend", "--realtime", "hold")
    manifest = json.loads((where / "manifest.json").read_text())
    assert manifest["identity"]["realtime"] == {"meanwhile": "hold", "latency_ms": "measured"}
    capsys.readouterr()
    assert main(["verify", str(where), "--replay", "2"]) == 0
    assert "none played again: the latency was measured" in capsys.readouterr().out
    assert main(["verify", str(where), "--replay", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["differences"] == []
    assert told["not_replayed"].startswith("the latency was measured")


def test_baselines_of_a_game_that_waits_grade_no_game_that_does_not(tmp_path: Path) -> None:
    slow = run(tmp_path, *SMALL, "--realtime", "hold", "--latency-ms", "1000", run_id="slow")
    at_once = run(tmp_path, *SMALL, "--realtime", "hold", "--latency-ms", "0", run_id="at_once")
    hold = {
        where.name: json.loads((where / "run.json").read_text())["scenarios"]["defend_the_center"]["baselines_hold"]
        for where in (slow, at_once)
    }
    assert hold == {"slow": False, "at_once": True}


def test_another_latency_is_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (*SMALL, "--step-cap", "3")
    run(tmp_path, *words, "--realtime", "hold", "--latency-ms", "50")
    run(tmp_path, *words, "--realtime", "hold", "--latency-ms", "60", code=2)
    assert "realtime.latency_ms is 50.0 there, 60.0 here" in capsys.readouterr().err
    run(tmp_path, *words, code=2)
    assert "realtime.meanwhile" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--realtime", "freeze"), ["--realtime", "freeze", "hold", "idle"]),
        (("--latency-ms", "100"), ["--latency-ms", "100", "--realtime hold"]),
        (("--realtime", "hold", "--latency-ms", "-1"), ["--latency-ms", "-1", "from 0"]),
        (("--realtime", "hold", "--latency-ms", "1e9"), ["--latency-ms", "1e+09", "3600000"]),
        (("--realtime", "hold", "--latency-ms", "soon"), ["--latency-ms", "soon", "number"]),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], named: list[str]
) -> None:
    assert main(["run", *words, "--pool", "local", "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("rollouts: ")
    assert said.count("\n") == 1
    assert [word for word in named if word not in said] == []
