"""The console command's first half second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console import OBEYS_CTRL_C, ROOT

pytestmark = pytest.mark.slow

BEGIN = "import sys; from rollouts.entry import main; sys.exit(main())"


def test_a_ctrl_c_among_the_imports_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "cyclopts.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(30)\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    command = [*OBEYS_CTRL_C, sys.executable, "-c", BEGIN]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == "importing\n"
        begun.send_signal(signal.SIGINT)
        assert begun.communicate(timeout=10)[1] == ""
    assert begun.returncode == -signal.SIGINT


def test_afterwards_the_command_itself_is_asked() -> None:
    command = [sys.executable, "-c", BEGIN, "no-such-command"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("rollouts: ")
    assert done.stderr.count("\n") == 1


WARNS = """
import warnings
from rollouts import cli
cli._run = lambda _: warnings.warn("a\\nb") or 0
cli.main()
"""


def test_a_warning_is_one_line_without_a_place_in_our_code() -> None:
    done = subprocess.run([sys.executable, "-c", WARNS], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("", "rollouts: a b\n")
