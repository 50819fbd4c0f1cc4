"""The console command in a process of its own, as a user starts it, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from rollouts.scratch import PREFIX, sweep_scratch

ROOT = Path(__file__).resolve().parents[1]
MARK_NAME = "ROLLOUTS_TEST_MARK"
MARK = uuid.uuid4().hex
OBEYS_CTRL_C = ("env", "--default-signal=INT")
"""The tests may run as a shell's background job, which ignores it, and so would what they start."""
POOLS = ("ray", "local")
DEFEND = ("--scenario", "defend_the_center", "--frames", "none")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "rollouts.cli", *words]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), MARK_NAME: MARK, **more}


def rollouts(folder: Path, *words: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*words), cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr
    return done


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.splitlines()[-1]


def episodes(folder: Path, run_id: str = "r") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "runs" / run_id / "episodes").to_pylist()
    return sorted(found, key=lambda row: (row["seed"], row["unit"]))


def left_over(patience_s: float = 2.0) -> list[str]:
    """The processes that still live, after a moment, with the mark of this test process."""
    over = time.monotonic() + patience_s
    while (found := _marked()) and time.monotonic() < over:
        time.sleep(0.05)
    return found


def _marked() -> list[str]:
    found = []
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error):
            if is_marked(process):
                found.append(process.info["name"])
    return found


def is_marked(process: psutil.Process, mark: str = MARK) -> bool:
    """Whether it descends from this test process, wherever its parents went. Errors: `psutil.Error`."""
    return process.environ().get(MARK_NAME) == mark


def scratch_left(place: Path, patience_s: float = 10.0) -> list[str]:
    """Temporary folders in `place` that a sweep leaves, after a moment.

    A killed process has lost its environment, by which `left_over` knows it, some time before it gives back its locks.
    """
    over = time.monotonic() + patience_s
    while True:
        sweep_scratch(min_age_s=0, place=place)
        found = sorted(str(path) for path in place.glob(f"{PREFIX}*"))
        if not found or time.monotonic() > over:
            return found
        time.sleep(0.05)


@dataclass
class Started:
    """`rollouts run … --json` under way, in a process group of its own as a shell's job is."""

    folder: Path
    words: tuple[str, ...]
    more: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            command(*self.words, "--json"),
            cwd=self.folder,
            env=environment(**self.more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def wait_for(self, event: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            if told["event"] == event:
                return told
        raise AssertionError(f"no {event} was printed: {self.process.stderr and self.process.stderr.read()}")

    def ctrl_c(self) -> None:
        """What a terminal does: to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, list[dict[str, Any]], str, float]:
        """Exit code, the remaining events, stderr, and how long it took."""
        begun_s = time.monotonic()
        out, err = self.process.communicate(timeout=60)
        took_s = time.monotonic() - begun_s
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err, took_s
