"""Mixtures from the console, on the real engine: rows, evidence, replay, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rollouts.cli import main
from tests.doubles import counting_scenario
from tests.same_rows import assert_same_data, comparable

pytestmark = pytest.mark.slow

NAMES = ("episode_id", "policy", "probabilities", "confidence", "model_action", "asked", "acted_by")
"""What the rows of equal games differ in where another policy plays them, or the teacher in its place."""
SMALL = ("--scenario", "defend_the_center", "--seeds", "0:3", "--frames", "none", "--grade", "none")
LOCAL = (*SMALL, "--step-cap", "30", "--pool", "local")
NO_TEACHER = counting_scenario(name="no_teacher", teacher=None)


def run(folder: Path, policy: str, run_id: str, words: tuple[str, ...] = LOCAL) -> Path:
    assert main(["run", *words, "--policy", policy, "--out", str(folder), "--run-id", run_id]) == 0
    return folder / run_id


def steps(where: Path) -> dict[str, list[Any]]:
    table = comparable(where, "steps")
    return {name: table.column(name).to_pylist() for name in table.column_names}


def hashes(where: Path) -> list[tuple[int, str]]:
    table = pq.read_table(where / "episodes", columns=["seed", "trajectory_hash"])
    return sorted(zip(table["seed"].to_pylist(), table["trajectory_hash"].to_pylist(), strict=True))


def test_all_teacher_is_the_oracle(tmp_path: Path) -> None:
    mixed, oracle = run(tmp_path, "mixture:1:random", "mixed"), run(tmp_path, "oracle", "oracle")
    assert hashes(mixed) == hashes(oracle)
    left, right = steps(mixed), steps(oracle)
    assert {name for name in left if left[name] != right[name]} == set(NAMES)
    assert set(left["acted_by"]) == {"teacher"}


def test_no_teacher_is_the_policy_apart_from_its_name(tmp_path: Path) -> None:
    mixed, alone = run(tmp_path, "mixture:0:random", "mixed"), run(tmp_path, "random", "alone")
    assert hashes(mixed) == hashes(alone)
    left, right = steps(mixed), steps(alone)
    assert {name for name in left if left[name] != right[name]} == {"episode_id", "policy"}


def test_the_evidence_counts_asked_decisions_alone_and_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = run(tmp_path, "mixture:0.5:random", "half")
    printed = capsys.readouterr().out
    manifest = json.loads((where / "manifest.json").read_text())
    (block,), rows = manifest["results"], steps(where)
    asked = [i for i, flag in enumerate(rows["asked"]) if flag]
    agreed = sum(rows["model_action"][i] == rows["teacher_action"][i] for i in asked)
    assert 0 < len(asked) < block["n_decisions"] == len(rows["asked"])
    assert (block["rubric_agreement"]["n"], block["rubric_agreement"]["n_usable"]) == (len(asked), len(asked))
    assert block["rubric_agreement"]["agreement"] == agreed / len(asked)
    unasked = block["n_decisions"] - len(asked)
    note = f"agreement, Brier and ECE leave out {unasked:,} decisions for which the policy was not asked"
    assert note in printed
    assert note in (where / "README.md").read_text()
    (who,) = manifest["policies"].values()
    assert (who["name"], who["settings"], who["inner"]["name"]) == ("mixture:0.5:random", {"beta": 0.5}, "random")
    assert manifest["identity"]["policies"]["mixture:0.5:random"]["inner"]["name"] == "random"
    assert main(["verify", str(where), "--replay", "3"]) == 0


def test_who_acts_does_not_depend_on_the_number_of_actors(tmp_path: Path) -> None:
    words = (*SMALL, "--step-cap", "20", "--episodes-per-seed", "2", "--episodes-per-unit", "1")
    alone = run(tmp_path, "mixture:0.5:random", "alone", (*words, "--pool", "local"))
    many = run(tmp_path, "mixture:0.5:random", "many", (*words, "--pool", "ray", "--actors", "2"))
    assert_same_data(alone, many)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--policy", "mixture:1.5:random"), ["mixture:1.5:random", "'1.5'", "from 0 to 1"]),
        (("--policy", "mixture:0.5"), ["mixture:0.5", "mixture:BETA:POLICY"]),
        (("--policy", "mixture:0.5:mixture:0.5:random"), ["mixture in a mixture"]),
        (("--policy", "mixture:0.5:nobody"), ["'nobody'", "oracle", "random"]),
        (
            (
                "--policy",
                "mixture:0.5:random",
                "--scenario",
                "defend_the_center",
                "--scenario",
                f"{__name__}:NO_TEACHER",
            ),
            ["'mixture'", "teacher", "'no_teacher'"],
        ),
        (
            ("--policy", "oracle", "--scenario", "defend_the_center", "--scenario", f"{__name__}:NO_TEACHER"),
            ["'oracle'", "teacher", "'no_teacher'"],
        ),
    ],
)
def test_a_mixture_that_cannot_be_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], named: list[str]
) -> None:
    assert main(["run", *words, "--pool", "local", "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("rollouts: ")
    assert said.count("\n") == 1
    assert [word for word in named if word not in said] == []
    assert list(tmp_path.rglob("*.json")) == []
