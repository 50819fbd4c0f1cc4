"""`rollouts compare` as a user of the console meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollouts.cli import main
from tests.console import environment, rollouts
from tests.exported_runs import FAILED, judge, make, played

RUN = ("run", "--frames", "none", "--rubric", "rule", "--pool", "local")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`old` and `new` of policy `half`: the metric is the number of decisions, seeds 3 and 4 have no pair."""
    old = {1: played(1, "dd", False), 2: played(2, "ddss", False), 3: played(3, "d", False), 4: FAILED}
    new = {1: played(1, "d", False), 2: played(2, "dd", False), 3: FAILED, 4: played(4, "ssss", False)}
    judge(make(tmp_path / "runs", "old", (old,)))
    make(tmp_path / "runs", "new", (new,))
    make(tmp_path / "runs", "third", ({1: played(1, "ddddd", False), 2: played(2, "ddd", False)},), policy="other")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_two_runs_pair_by_pair(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = told(capsys, "old", "new")["comparisons"]
    assert [(pair["seed"], pair["A"], pair["B"], pair["difference"]) for pair in found["pairs"]] == [
        *[(1, 2.0, 1.0, -1.0), (2, 4.0, 2.0, -2.0)]
    ]
    assert [(u["seed"], u["in"], u["not_in"], u["why"]) for u in found["unpaired"]] == [
        *[(3, "A", "B", "failed (engine: the engine died (signal 9))")],
        *[(4, "B", "A", "failed (engine: the engine died (signal 9))")],
    ]
    mean = found["measures"]["left"]["mean"]
    assert (mean["value"], mean["n"], mean["unit"]) == (-1.5, 2, "pair")
    agreement = found["measures"]["agreement"]
    assert (agreement["first"]["value"], agreement["second"]["value"]) == (pytest.approx(4 / 6), 1.0)


def test_what_is_damaged_is_named_so(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = runs / "runs/new/steps/part-0000000.parquet"
    shard.write_bytes(shard.read_bytes()[:-9])
    (found,) = told(capsys, "old", "new")["comparisons"]
    assert [(u["seed"], u["not_in"], u["why"]) for u in found["unpaired"]] == [
        *[(1, "B", "damaged"), (2, "B", "damaged"), (3, "B", "damaged")],
    ]


def test_what_is_shown_to_people(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "old", "new"]) == 0
    out = capsys.readouterr().out
    for line in (
        "left: no difference is shown: B - A is -1.50 [-2.00, -1.00] over 2 pairs",
        "A: 3 of 4 episodes completed",
        "unpaired: 1 episode in A alone, in B failed (engine: the engine died (signal 9)): seed 3",
        "Rubric agreement is not accuracy",
    ):
        assert line in out


def test_a_run_with_itself(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = told(capsys, "old", "old", "--fail-if-worse", "left:0")["comparisons"]
    left = found["measures"]["left"]
    assert (left["mean"]["value"], left["mean"]["low"], left["mean"]["high"]) == (0.0, None, None)
    assert (left["p_value"], left["significant"]) == (1.0, False)
    assert left["mean"]["undefined"] == "undefined: all 3 pairs are equal"
    assert (left["differing"]["low"], left["differing"]["n"]) == (0.0, 3)
    assert left["differing"]["high"] > 0.5


def test_worse_fails(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (verdict,) = told(capsys, "old", "new", "--fail-if-worse", "left:0.5", code=1)["fail_if_worse"]
    assert (verdict["worse"], verdict["measure"]) == (True, "left")
    (verdict,) = told(capsys, "old", "new", "--fail-if-worse", "left:1")["fail_if_worse"]
    assert (verdict["worse"], verdict["fails"]) == (False, False)


def test_grades_of_one_side_alone_are_not_compared(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = told(capsys, "old", "new")["comparisons"]
    assert not any(name.startswith("R (") for name in found["measures"])
    (found,) = told(capsys, "old", "old")["comparisons"]
    (name,) = (name for name in found["measures"] if name.startswith("R ("))
    assert name.startswith("R (heuristic ")
    assert (found["measures"][name]["mean"]["n"], found["measures"][name]["first"]["value"]) == (1, 1.0)


def test_several_runs_are_a_leaderboard(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (board,) = told(capsys, "old", "new", "third")["leaderboards"]
    assert [(line["name"], line["measures"]["left"]["value"]) for line in board["lines"]] == [
        *[("third:other", 4.0), ("old:half", 3.0), ("new:half", 1.5)]
    ]
    assert {(u["seed"], u["not_in"]) for u in board["unpaired"]} >= {(3, "new:half"), (3, "third:other")}
    assert main(["compare", "old", "new", "third"]) == 0
    assert "3   new:half" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "there is nothing to compare"),
        (("old",), "there is nothing to compare"),
        (("old", "nowhere"), "there is no run in"),
        (("old:hlaf", "new"), 'policy of run "old" "hlaf" is unknown (did you mean "half"?)'),
        (("old", "new", "--fail-if-worse", "kills:1"), '--fail-if-worse "kills" is unknown: choose from left'),
        (("old", "new", "--fail-if-worse", "left"), "give METRIC:MARGIN"),
        (("old", "new", "third", "--fail-if-worse", "left:1"), "compares two, B with A: 3 are given"),
    ],
)
def test_wrong_use(runs: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str) -> None:
    assert main(["compare", *words]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert line in said


def test_without_scipy_one_line_says_what_to_install(runs: Path) -> None:
    code = "import sys; sys.modules['scipy'] = None; from rollouts.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "compare", "old", "new"]
    done = subprocess.run(words, cwd=runs, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "pip install 'doom-rollouts[report]'" in line


@pytest.mark.slow
def test_oracle_against_random_as_in_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The published seeds. The oracle's kills are the published ones, 11.125; random's some 1 to 2."""
    rollouts(tmp_path, *RUN, "--scenario", "defend_the_center", "--policy", "oracle", "--policy", "random",
             "--seeds", "published", "--run-id", "demo")  # fmt: skip
    run = str(tmp_path / "runs" / "demo")
    (found,) = told(capsys, f"{run}:random", f"{run}:oracle", "--fail-if-worse", "kills:0")["comparisons"]
    kills = found["measures"]["kills"]
    assert kills["second"]["value"] == 11.125
    assert kills["mean"]["low"] > 5
    assert kills["significant"]
    told(capsys, f"{run}:oracle", f"{run}:random", "--fail-if-worse", "kills:1", code=1)
    for same in told(capsys, run, run)["comparisons"]:
        assert same["measures"]["kills"]["mean"]["value"] == 0
    assert main(["compare", f"{run}:oracle", f"{run}:random"]) == 0
    assert "kills: A is better" in capsys.readouterr().out
    assert main(["grade", run, "--judge-card"]) == 0
    assert "graded 16 of 16 episodes" in capsys.readouterr().out
