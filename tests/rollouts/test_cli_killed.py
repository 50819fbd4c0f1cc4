"""A driver from the console that is killed at a named step of its files; the same command makes it good."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.console import DEFEND, command, environment, rollouts
from tests.same_rows import assert_same_data

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]
SMALL = ("run", *DEFEND, "--seeds", "0:3", "--step-cap", "4", "--pool", "local", "--run-id", "r")


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calm")
    rollouts(folder, *SMALL)
    return folder


def files(folder: Path) -> list[str]:
    """But for logs: who worked, and when, is another story each time."""
    found = (path.relative_to(folder) for path in (folder / "runs").rglob("*"))
    return sorted(str(path) for path in found if "logs" not in path.parts)


KILLER = """
import os, signal, sys
import rollouts.store.storage as storage
moment, path = sys.argv[1:3]

class Killing(storage.LocalStorage):
    '''Dies before, in the middle of, or after the first operation on a file of that name.'''

    def _die(self, when, name):
        if when == moment and path in name and '.staging' not in name:
            os.kill(os.getpid(), signal.SIGKILL)

    def move(self, source, target, overwrite=False):
        self._die('before', target)
        super().move(source, target, overwrite)
        self._die('after', target)

    def put_file(self, local, target):
        self._die('before', target)
        super().put_file(local, target)
        self._die('after', target)

    def write_bytes(self, target, data):
        self._die('before', target)
        if moment == 'half' and path in target:
            full = self.local_path(target)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.with_name('.' + full.name + '.tmp-00c0ffee').write_bytes(data[: len(data) // 2])
        self._die('half', target)
        super().write_bytes(target, data)
        self._die('after', target)

storage.LocalStorage = Killing
from rollouts.cli import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(
    ("moment", "path"),
    [
        *(("half", "lease.json"), ("after", "lease.json")),
        *(("before", "plan/"), ("after", "plan/")),
        *(("half", "run.json"), ("after", "run.json")),
        *(("before", "steps/part-0000001"), ("after", "steps/part-0000001"), ("after", "episodes/part-0000001")),
        *(("half", "README.md"), ("half", "manifest.json"), ("after", "manifest.json")),
    ],
)
def test_a_driver_killed_at_a_named_step_is_made_good_by_the_same_command(
    tmp_path: Path, calm: Path, moment: str, path: str
) -> None:
    killed = subprocess.run(
        [command()[0], "-c", KILLER, moment, path, *SMALL],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    rollouts(tmp_path, *SMALL)
    assert_same_data(tmp_path / "runs/r", calm / "runs/r")
    assert files(tmp_path) == files(calm)
    rollouts(tmp_path, "verify", "runs/r")
