"""`rollouts report` as a user types it: what it refuses in one line, and where its files go."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rollouts.cli import main
from tests.made_runs import RUN_ID, SILENT, Played
from tests.reported_runs import histories_run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    histories_run(tmp_path / "runs", {"a": [Played(SILENT, 4.0), Played(SILENT, 2.0)]})
    return tmp_path / "runs" / RUN_ID


def test_by_default_it_lies_in_the_runs_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert main(["report", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["page"]) == run / "report.html"
    assert told["page_bytes"] == (run / "report.html").stat().st_size
    assert (run / "report.md").is_file()
    assert {Path(plot).parent for plot in told["plots"]} == {run / "report_files"}
    assert {path: path.read_bytes() for path in before} == before
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out.startswith(f"{run / 'report.html'} (0.")


def test_two_runs_in_one_file(run: Path, tmp_path: Path) -> None:
    histories_run(tmp_path / "runs", {"b": [Played(SILENT, 3.0)]}, run_id="other")
    out = tmp_path / "both.html"
    assert main(["report", str(run), str(run.parent / "other"), "--out", str(out)]) == 0
    assert "<title>2 runs</title>" in out.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no run is named"),
        (["RUN", "RUN"], "is named twice"),
        (["RUN", "OTHER"], "give --out FILE.html"),
        (["RUN", "--max-mb", "0"], "--max-mb is 0: must be above 0"),
        (["RUN", "--max-mb", "nan"], "--max-mb is nan: must be above 0"),
        (["RUN", "--max-mb", "0.001"], "plots and tables alone take"),
        (["RUN", "--out", "RUN"], "give the name of an HTML file"),
        (["NOWHERE"], "NOWHERE"),
    ],
)
def test_wrong_use_is_one_line(run: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    histories_run(run.parent, {"b": [Played(SILENT, 3.0)]}, run_id="OTHER")
    places = {"RUN": str(run), "OTHER": str(run.parent / "OTHER"), "NOWHERE": str(run.parent / "NOWHERE")}
    assert main(["report", *(places.get(word, word) for word in words)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_missing_extra_is_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "matplotlib" else there(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert main(["report", str(run)]) == 2
    assert capsys.readouterr().err == "rollouts: a report needs matplotlib: pip install 'doom-rollouts[report]'\n"


def test_the_pages_files_are_in_the_package() -> None:
    """By the patterns that setuptools puts into a wheel."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["rollouts"]
    page = ROOT / "rollouts/report/page"
    files = [path.relative_to(ROOT / "rollouts").as_posix() for path in page.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert [file for file in files if not any(fnmatch.fnmatchcase(file, pattern) for pattern in patterns)] == []
