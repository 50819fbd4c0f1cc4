"""What of a working dir goes along with a job (R6: not `.git` and data, but the model that `.gitignore` drops)."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from rollouts.commands.job_files import MOST_FILES, MOST_MB, Choice, Reading, choose_files, place_in
from rollouts.errors import UsageError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """As in R6: 150 MB of data, a `.git`, and a model that git ignores."""
    put(tmp_path, "play.py", "notes/plan.md", "data/x.bin", "runs/r/run.json", ".venv/lib/x.py", ".env", "server.key")
    put(tmp_path, "models/p.onnx", "mine/data/table.txt", "mine/__pycache__/x.pyc")
    (tmp_path / ".gitignore").write_text("models/\n")
    os.truncate(tmp_path / "data/x.bin", 150_000_000)
    return tmp_path


@pytest.fixture
def repository(project: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    return project


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def chosen(root: Path, *read: str, **choice: tuple[str, ...]) -> set[str]:
    return set(choose_files(root, Choice(**choice), [root / name for name in read]).sizes)


ALWAYS = {".gitignore", "play.py", "notes/plan.md", "mine/data/table.txt"}


def test_what_git_would_track_goes_along(repository: Path) -> None:
    assert chosen(repository) == ALWAYS


def test_what_the_command_reads_goes_along_whatever_drops_it(repository: Path) -> None:
    put(repository, "data/small.txt")
    read = {"models/p.onnx", "data/small.txt"}
    assert chosen(repository, *read) == ALWAYS | read
    assert chosen(repository, *read, "play.py", exclude=("play.py", "models")) == ALWAYS | read


def test_without_git_everything_goes_along_but_what_never_does(project: Path) -> None:
    (project / ".git").mkdir()
    put(project, ".git/objects/pack")
    assert chosen(project) == ALWAYS | {"models/p.onnx"}


def test_more_and_less_by_name(repository: Path) -> None:
    assert chosen(repository, include=("models", ".env"), exclude=("*.md", "mine/")) == {
        *(".gitignore", "play.py", "models/p.onnx", ".env")
    }


def test_a_path_by_a_link_is_where_the_link_leads(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    link = tmp_path_factory.mktemp("links") / "project"
    link.symlink_to(project)
    assert place_in(project, link / "models/p.onnx") == Path("models/p.onnx")
    assert place_in(link, project / "models/p.onnx") == Path("models/p.onnx")
    assert place_in(project, link.parent) is None
    reading = Reading(project)
    with reading.noted():
        (link / "models/p.onnx").read_bytes()
    assert reading.files() == [project / "models/p.onnx"]


@pytest.mark.parametrize(
    ("name", "named"), [("gone.txt", "there is no such file or folder"), ("../x", "choose another --working-dir")]
)
def test_an_include_that_cannot_go_along_is_refused(project: Path, name: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        chosen(project, include=(name,))


def test_too_much_is_refused_with_what_it_is(repository: Path) -> None:
    (repository / "big").mkdir()
    put(repository, "big/one.bin", "big/two.bin")
    for name in ("one", "two"):
        os.truncate(repository / f"big/{name}.bin", 60_000_000)
    with pytest.raises(UsageError, match=rf"120\.0 MB of .*, more than {MOST_MB} MB .*big \(120\.0 MB\)"):
        chosen(repository)
    assert chosen(repository, exclude=("big",)) == ALWAYS


def test_a_folder_of_countless_files_is_refused_and_not_walked_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a/1", "a/2", "a/3", "b/4")
    monkeypatch.setattr("rollouts.commands.job_files.MOST_FILES", 2)
    with pytest.raises(UsageError, match="more than 2 files: choose a smaller --working-dir"):
        chosen(tmp_path)
    assert MOST_FILES > 10_000


def test_the_same_files_make_the_same_package(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("out")
    (project / "play.py").chmod(0o755)
    choose_files(project, Choice(), ()).write_zip(out / "one.zip")
    os.utime(project / "play.py", (1, 1))
    choose_files(project, Choice(), ()).write_zip(out / "two.zip")
    assert (out / "one.zip").read_bytes() == (out / "two.zip").read_bytes()
    with zipfile.ZipFile(out / "one.zip") as package:
        assert package.read("notes/plan.md") == b"notes/plan.md"
        assert package.getinfo("play.py").external_attr >> 16 == 0o755


def test_what_is_read_is_noted_and_nothing_else(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    (project / "play.py").write_text("import helper\n")
    (project / "helper.py").write_text("")
    monkeypatch.syspath_prepend(str(project))
    reading = Reading(project)
    with reading.noted():
        (project / "models/p.onnx").read_bytes()
        with Path("mine/data/table.txt").open() as file:
            file.read()
        (project / "written.txt").write_text("")
        (project / ".env").read_text()
        (project / ".venv/lib/x.py").read_text()
        __import__("play")
    (project / "notes/plan.md").read_text()
    found = {path.relative_to(project).as_posix() for path in reading.files()}
    assert found == {"models/p.onnx", "mine/data/table.txt", "play.py", "helper.py"}
