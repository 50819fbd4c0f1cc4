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

ROOT = Path(__file__).resolve().parents[1]
MARK = uuid.uuid4().hex
POOLS = ("ray", "local")
DEFEND = ("--scenario", "defend_the_center", "--frames", "none")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "rollouts.cli", *words]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "ROLLOUTS_TEST_MARK": MARK, **more}


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
            if process.environ().get("ROLLOUTS_TEST_MARK") == MARK:
                found.append(process.info["name"])
    return found


def lost_memory() -> set[str]:
    """Engines' shared memory on this machine that no process uses."""
    names = {path.name for path in Path("/dev/shm").glob("ViZDoom*")}
    for maps in Path("/proc").glob("[0-9]*/maps") if names else ():
        with contextlib.suppress(OSError):
            text = maps.read_text(errors="replace")
            names -= {name for name in names if name in text}
    return names


def newly_lost_memory(before: set[str], patience_s: float = 2.0) -> set[str]:
    """What of it was not there before; an engine that starts elsewhere has not mapped its own for a moment."""
    over = time.monotonic() + patience_s
    while (found := lost_memory() - before) and time.monotonic() < over:
        time.sleep(0.05)
    return found


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
