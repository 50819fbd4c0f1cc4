"""Folders in which a run may not be started."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.commands.working_dir import check_out_lasts, check_workers_see_ours
from rollouts.config import RunConfig
from rollouts.errors import UsageError

COPY = "session_1/runtime_resources/working_dir_files/_ray_pkg_0123"
"""Where Ray 2.60 unpacks the working dir of a job, below its temporary folder."""


def test_results_of_a_job_do_not_land_in_rays_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6."""
    (tmp_path / COPY).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / COPY)
    with pytest.raises(UsageError, match=rf'--out "runs" is {tmp_path}/{COPY}/runs, in the copy of the working dir'):
        check_out_lasts(RunConfig())
    for lasting in (f"{tmp_path}/runs", "s3://bucket/runs"):
        check_out_lasts(RunConfig(out=lasting))


def test_workers_find_our_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_workers_see_ours(RunConfig())
    (tmp_path / "actors.py").touch()
    check_workers_see_ours(RunConfig(pool="local"))
    with pytest.raises(UsageError, match=r"actors\.py hides our own package 'actors'"):
        check_workers_see_ours(RunConfig())
