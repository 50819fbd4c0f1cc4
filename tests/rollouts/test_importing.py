"""Names of ours that somebody else's folder has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rollouts.errors import UsageError
from rollouts.importing import OUR_PACKAGES, OUR_ROOT, refuse_shadows
from tests.console import environment


def test_our_own_folder_hides_nothing() -> None:
    refuse_shadows([OUR_ROOT])


@pytest.mark.parametrize("name", OUR_PACKAGES)
def test_a_package_or_module_that_hides_ours_is_refused_by_its_path(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    refuse_shadows([tmp_path])  # a folder of data: Python passes over it
    (tmp_path / name / "__init__.py").touch()
    with pytest.raises(UsageError, match=rf"{tmp_path}/{name} hides our own package '{name}'"):
        refuse_shadows(["/nowhere", tmp_path])
    (tmp_path / name / "__init__.py").unlink()
    (tmp_path / f"{name}.py").touch()
    with pytest.raises(UsageError, match=rf"{tmp_path}/{name}\.py hides"):
        refuse_shadows([tmp_path])


def test_a_copy_of_ours_elsewhere_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(OUR_ROOT)
    refuse_shadows([tmp_path / "link"])


@pytest.mark.parametrize("name", ["actors", "grading"])
@pytest.mark.parametrize("first", [True, False])
def test_the_command_says_so_at_its_start(tmp_path: Path, name: str, first: bool) -> None:
    """Where Python finds it before ours, and where only the workers would, who look into the current folder first."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')\n")
    path = f"{tmp_path}:{OUR_ROOT}" if first else str(OUR_ROOT)
    words = [sys.executable, "-P", "-m", "rollouts.cli", "run", "--seeds", "0:1"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment(PYTHONPATH=path), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert f"{tmp_path}/{name} hides our own package {name!r}" in done.stderr
