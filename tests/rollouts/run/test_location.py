"""A run is found by whatever leads to its folder, from wherever the command is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.errors import UsageError
from rollouts.run.location import find_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs/r/steps").mkdir(parents=True)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("at", "named"),
    [
        *(("runs/r", named) for named in (".", "./", "../r", "../r/", "../../runs/r", "steps/..", "steps/../")),
        *(("runs/r/steps", named) for named in ("..", "../", "../.", "../../r")),
        *(("runs", named) for named in ("r", "r/", "./r", "r/.", "./r//")),
        *((".", named) for named in ("r", "r/", "runs/r", "runs/r/", "./runs/r", "runs//r")),
    ],
)
def test_a_path_leads_to_the_same_run_from_everywhere(
    runs: Path, at: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent / at)
    found = find_run(named)
    assert (found.run_id, found.describe()) == ("r", str(runs / "r"))


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_an_absolute_path_and_a_uri_may_end_in_slashes(runs: Path, slashes: str) -> None:
    for named in (f"{runs}/r{slashes}", f"file://{runs}/r{slashes}"):
        assert find_run(named).describe() == str(runs / "r")


def test_a_link_to_a_run_keeps_its_name(runs: Path) -> None:
    (runs / "latest").symlink_to("r")
    assert find_run(f"{runs}/latest").run_id == "latest"


@pytest.mark.parametrize("named", ["", "/", "//", "s3://bucket", "s3://bucket/", "file:///", "s3://bucket/runs/.."])
def test_what_can_be_no_run_is_refused_in_one_line(named: str) -> None:
    with pytest.raises(UsageError, match="give the folder of one run") as caught:
        find_run(named)
    assert f'run "{named}"' in str(caught.value)
