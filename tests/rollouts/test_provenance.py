"""Where code comes from, asked of real checkouts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rollouts.provenance import SourceRevision, package_versions, source_revision


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    command = ("git", "-C", str(folder), *who, *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A file in a clean checkout of one commit."""
    git(tmp_path, "init", "-q")
    made = tmp_path / "package" / "module.py"
    made.parent.mkdir()
    made.write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text(".venv/\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return made


def test_a_clean_tree_then_a_changed_one(code: Path, tmp_path: Path) -> None:
    head = git(tmp_path, "rev-parse", "HEAD")
    assert source_revision(code) == SourceRevision(head, dirty=False)
    code.write_text("x = 2\n")
    assert source_revision(code) == SourceRevision(head, dirty=True)


def test_a_new_file_is_a_change_and_an_ignored_one_is_not(code: Path, tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "installed.py").write_text("x = 1\n")
    assert source_revision(code).dirty is False
    code.with_name("new.py").write_text("x = 1\n")
    assert source_revision(code).dirty is True


def test_installed_code_is_of_no_checkout(code: Path, tmp_path: Path) -> None:
    """In a virtual environment inside somebody's checkout, or in no checkout at all."""
    installed = tmp_path / ".venv" / "installed.py"
    installed.parent.mkdir()
    installed.write_text("x = 1\n")
    assert source_revision(installed) == SourceRevision(None, None)


def test_outside_any_checkout(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("x = 1\n")
    assert source_revision(tmp_path / "module.py") == SourceRevision(None, None)


def test_an_outer_git_does_not_lead_it_astray(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As inside a hook, where git sets variables for its own repository."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert source_revision(code).dirty is False


def test_versions() -> None:
    versions = package_versions(("numpy", "no-such-distribution"))
    assert versions["numpy"]
    assert versions["python"]
    assert versions["no-such-distribution"] is None
