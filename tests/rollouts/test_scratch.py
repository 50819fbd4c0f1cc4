"""Temporary folders go with their owner, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rollouts.scratch import ScratchFolder, sweep_scratch


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_removed_on_leaving_also_by_an_exception(temporary: Path) -> None:
    def fail() -> None:
        with ScratchFolder("unit") as folder:
            (folder / "steps.spool").write_bytes(b"half")
            assert folder.parent == temporary
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(temporary.iterdir()) == []


def test_a_living_owners_folder_is_not_swept_however_old(temporary: Path) -> None:
    with ScratchFolder("unit") as folder:
        os.utime(folder, (1, 1))
        assert sweep_scratch() == []
        assert folder.is_dir()


def test_what_a_killed_process_left_is_swept_once_it_is_old(temporary: Path) -> None:
    script = (
        "import os\nfrom rollouts.scratch import ScratchFolder\nkept = ScratchFolder('unit')\nos.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == -9
    (left,) = temporary.iterdir()
    assert sweep_scratch() == []
    os.utime(left, (1, 1))
    assert sweep_scratch() == [left]
    assert list(temporary.iterdir()) == []


KILLED_AT = """
import os, sys, shutil
from rollouts import scratch
def die(*_, **__): os.kill(os.getpid(), 9)
really_open = os.open
if sys.argv[1] == "begin":
    os.open = lambda path, *rest, **more: die() if str(path).endswith("lock") else really_open(path, *rest, **more)
folder = scratch.ScratchFolder("unit")
(folder.path / "frames").mkdir()
(folder.path / "steps.spool").write_bytes(b"half")
if sys.argv[1] == "end":
    os.rmdir = die
else:
    shutil.rmtree = die
folder.remove()
"""


@pytest.mark.parametrize("moment", ["begin", "middle", "end"])
def test_who_is_killed_while_it_makes_or_removes_its_folder_leaves_nothing_for_ever(
    temporary: Path, moment: str
) -> None:
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED_AT, moment], env=environment, check=False)
    assert done.returncode == -9
    (left,) = temporary.iterdir()
    os.utime(left, (1, 1))
    assert sweep_scratch() == [left]
    assert list(temporary.iterdir()) == []


def test_folders_of_others_are_left_alone(temporary: Path) -> None:
    for name in ("doom-rollouts-without-lock", "other"):
        (temporary / name).mkdir()
        os.utime(temporary / name, (1, 1))
    assert sweep_scratch() == []
