"""DAgger in miniature, as a person starts it: rounds of real games, a kill in between, a network that plays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rollouts.errors import UsageError
from rollouts.readers import read_table
from rollouts.scenarios.registry import SCENARIOS
from tests.console import environment, left_over

torch = pytest.importorskip("torch", reason="torch is an extra (train)")
SMALL = ("--scenario", "basic", "--rows", "40", "--betas", "1", "0.5", "--steps", "30", "--evaluation-seeds", "2")


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    words = (sys.executable, "-m", "examples.dagger", *SMALL, "--out", "out", *words)
    with (folder / "told.txt").open("a") as told:
        return subprocess.Popen(words, cwd=folder, env=environment(), stdout=told, stderr=told, text=True)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists() and process.poll() is None:
        time.sleep(0.02)
    assert path.exists(), (path.parents[1] / "told.txt").read_text()[-2000:]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*.parquet")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Killed on Ray after its first round, finished in one process; what the first round left is untouched."""
    folder = tmp_path_factory.mktemp("dagger")
    out = folder / "out"
    killed = start(folder, "--pool", "ray")
    wait_for(out / "round-0.safetensors", killed)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert left_over(20) == []
    assert not (out / "report.json").exists()
    network, rows = (out / "round-0.safetensors").stat().st_mtime_ns, contents(out / "round-0/steps")
    code = start(folder, "--pool", "local").wait()
    assert code == 0, (folder / "told.txt").read_text()[-2000:]
    assert (out / "round-0.safetensors").stat().st_mtime_ns == network
    assert contents(out / "round-0/steps") == rows
    return out


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_example_goes_on_and_both_play_the_same_unseen_seeds(finished: Path) -> None:
    told: dict[str, Any] = json.loads((finished / "report.json").read_text())
    assert told["seeds"] == [0, 1]
    assert len(told["network"]) == len(told["teacher"]) == 2
    learned = {seed for n in (0, 1) for seed in read_table(finished / f"round-{n}", ["seed"])["seed"].to_pylist()}
    assert learned.isdisjoint(told["seeds"])
    assert {*read_table(finished / "evaluation", ["seed"])["seed"].to_pylist()} == {*told["seeds"]}


@pytest.mark.slow
def test_the_second_round_was_played_by_teacher_and_network(finished: Path) -> None:
    rows = read_table(finished / "round-1", ["acted_by", "teacher_action"]).to_pylist()
    assert len(rows) >= 40
    assert {row["acted_by"] for row in rows} == {"teacher", "policy"}
    assert all(row["teacher_action"] in SCENARIOS["basic"].options for row in rows)


@pytest.mark.slow
def test_the_policy_sees_and_scores_what_training_did(finished: Path) -> None:
    """Its probabilities in the rows of a round are those of the network on the frames that are learned from."""
    from safetensors.torch import load_file

    from examples.dagger import Lesson, Rows
    from rollouts.policies.torch_architectures import build

    lesson, rows = Lesson("basic", finished), Rows()
    rows.add(finished / "round-1", lesson.card, most=40)
    network = build(lesson.card, 3).eval()
    network.load_state_dict(load_file(lesson.network(0)))
    with torch.inference_mode():
        shares = torch.softmax(network(torch.stack(rows.seen).float() / 255), dim=1)
    told = read_table(finished / "round-1", ["asked", "probabilities"]).to_pylist()[:40]
    asked = [(row["probabilities"], mine) for row, mine in zip(told, shares.tolist(), strict=True) if row["asked"]]
    assert len(asked) > 5
    for stored, mine in asked:
        assert stored == pytest.approx(mine, abs=1e-5)


def test_no_scenario_is_evaluated_on_what_is_learned_from() -> None:
    from benchmarks.paired import seeds_of
    from examples.dagger import FIRST_SEED

    assert max(max(seeds_of(scenario, 1_000)) for scenario in SCENARIOS.values()) < FIRST_SEED


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--betas", "0.5"), "--betas must begin with 1"),
        (("--betas", "1", "2"), "--betas must begin with 1"),
        (("--rows", "0"), "--rows, --steps and --evaluation-seeds must be 1 or more"),
        (("--scenario", "predict_position"), "invalid choice: 'predict_position'"),
    ],
)
def test_what_cannot_be_learned(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    from examples.dagger import main

    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert says in capsys.readouterr().err


def test_another_lesson_in_the_same_folder(tmp_path: Path) -> None:
    """Its networks would be taken for this one's."""
    from examples.dagger import Lesson, Round, learn

    (tmp_path / "lesson.json").write_text("{}")
    with pytest.raises(UsageError, match=r"holds another lesson: \{\}; give another --out"):
        next(learn(Lesson("basic", tmp_path), [Round(1, 10)]))
