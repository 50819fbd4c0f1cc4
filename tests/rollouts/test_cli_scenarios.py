"""Scenarios as a user names them on the command line: files, texts of their own, and one without a teacher."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rollouts.cli import main
from tests.scenario_files import write_line

pytestmark = pytest.mark.slow

SHORT = ("--pool", "local", "--frames", "none", "--run-id", "r", "--step-cap", "5", "--seeds", "0:2")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("runs/r/manifest.json").read_text())
    return found


def test_a_scenario_file_is_played_and_its_hashes_are_evidence_and_identity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "--scenario", str(write_line(tmp_path)), "--rubric", "both", *SHORT)
    assert main([*words]) == 0
    expected = {
        **{"file": "line.toml", "file_sha256": sha256(tmp_path / "line.toml")},
        **{"cfg": "mine.cfg", "cfg_sha256": sha256(tmp_path / "mine.cfg")},
        **{"wad": "mine.wad", "wad_sha256": sha256(tmp_path / "mine.wad")},
    }
    told = manifest()["scenarios"]["my_line"]["provenance"]
    assert {key: told[key] for key in expected} == expected
    of = json.loads(Path("runs/r/run.json").read_text())["identity"]["scenarios"]["my_line"]
    assert {key: of[key] for key in expected} == expected
    assert of["rubrics_sha256"]["bare"] == sha256(tmp_path / "bare.txt")
    assert main(["verify", "runs/r", "--replay", "2"]) == 0
    (tmp_path / "line.toml").write_text((tmp_path / "line.toml").read_text() + "# changed\n")
    capsys.readouterr()
    assert main([*words]) == 2
    assert "scenarios.my_line.file_sha256 is" in capsys.readouterr().err
    assert main(["verify", "runs/r", "--replay", "2"]) == 0
    assert 'scenario file "line.toml" is no longer the one' in capsys.readouterr().out
    (tmp_path / "line.toml").unlink()
    assert main(["verify", "runs/r", "--replay", "2"]) == 0
    assert "No such file" in capsys.readouterr().out


def test_without_a_teacher_its_action_is_null_and_agreement_absent(tmp_path: Path) -> None:
    words = ("--scenario", "predict_position", "--policy", "random", "--rubric", "bare")
    assert main(["run", *words, *SHORT]) == 0
    rows = pq.read_table(tmp_path / "runs/r/steps").to_pylist()
    assert len(rows) == 10
    assert {row["teacher_action"] for row in rows} == {None}
    (block,) = manifest()["results"]
    assert "rubric_agreement" not in block
    assert block["success_aggregate"]["n_episodes"] == 2


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            ('"ATTACK", "MOVE_FORWARD"', '"ATTACK", "FLY"'),
            ["line.toml", "actions.run and gun", '"FLY"', "MOVE_FORWARD"],
        ),
        (('wad = "mine.wad"', 'wad = "bare.txt"'), ["line.toml", "wad", "bare.txt", "no wad", "IWAD or PWAD"]),
        (('do = "attack"', 'do = "fire"'), ["line.toml", "teacher[2].do", '"fire"', "attack"]),
        (('cfg = "mine.cfg"', 'cfg = "bare.txt"'), ["line.toml", "cfg", "bare.txt", "Syntax error in line #1"]),
    ],
)
def test_a_wrong_file_is_one_line_before_anything_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], change: tuple[str, str], named: list[str]
) -> None:
    path = write_line(tmp_path, change)
    assert main(["run", "--scenario", str(path), *SHORT]) == 2
    out, said = capfd.readouterr()
    assert (out, said.count("\n")) == ("", 1)
    assert [word for word in named if word not in said] == []
    assert not (tmp_path / "runs").exists()
