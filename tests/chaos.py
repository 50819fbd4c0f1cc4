"""Kills at random while a run goes on: actors, engines (SIGKILL, SIGSTOP), a node, the driver; then compares the tables
with those of a run that nobody disturbed.

    python -m tests.chaos --kills 25 --seed 0

Kills follow the number of committed units, not the clock, so that a seed repeats them. A pretended cluster of two nodes
on this machine carries the run; the driver is `rollouts run`, started again with the same command when it was killed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.console import MARK_NAME, is_marked, scratch_left
from tests.engine_memory import EngineMemory
from tests.processes import descendants
from tests.same_rows import assert_same_data

KINDS = ("actor", "engine", "stopped engine", "node", "driver")
RUN_ID = "chaos"
CONSOLE = (sys.executable, "-m", "rollouts.cli")
NODE_CPUS = 2


@dataclass(frozen=True)
class Setting:
    """What is played, and how often something is killed meanwhile."""

    seeds: int = 150
    step_cap: int = 25
    episodes_per_unit: int = 3
    kills: int = 25
    seed: int = 0
    limit_s: float = 900.0

    @property
    def units(self) -> int:
        return 2 * -(-self.seeds // self.episodes_per_unit)

    def command(self, out: Path, *more: str) -> list[str]:
        return [
            *(*CONSOLE, "run", "--scenario", "published", "--policy", "random"),
            *("--seeds", f"0:{self.seeds}", "--step-cap", str(self.step_cap), "--frames", "png"),
            *("--episodes-per-unit", str(self.episodes_per_unit), "--unit-timeout-s", "15"),
            *("--out", str(out), "--run-id", RUN_ID, *more),
        ]

    def schedule(self) -> list[tuple[int, str]]:
        """(committed units, what to kill then), every kind about equally often."""
        chance = random.Random(self.seed)
        moments = sorted(chance.sample(range(1, self.units - 2), self.kills))
        kinds = [KINDS[k % len(KINDS)] for k in range(self.kills)]
        chance.shuffle(kinds)
        return list(zip(moments, kinds, strict=True))


@dataclass
class Stage:
    """The cluster, the driver on it, and the ways to hurt them."""

    setting: Setting
    out: Path
    chance: random.Random
    killed: Counter[str] = field(default_factory=Counter)
    starts: int = 0

    def open(self) -> None:
        from ray.cluster_utils import Cluster  # Ray reads its environment when it is imported

        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        self._node = self._cluster.add_node(num_cpus=NODE_CPUS)
        self.start_driver()

    def start_driver(self) -> None:
        self.starts += 1
        command = self.setting.command(self.out, "--address", self._cluster.address, "--actors", "2")
        with (self.out / f"driver-{self.starts}.log").open("w") as log:
            self._driver = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def ended(self) -> int | None:
        return self._driver.poll()

    def committed(self) -> int:
        return len(list((self.out / RUN_ID / "episodes").glob("part-*.parquet")))

    def kill(self, kind: str) -> bool:
        """Whether there was something to kill."""
        hurt: dict[str, Callable[[], bool]] = {
            "actor": lambda: self._signal(self._processes("ray::RolloutActor"), signal.SIGKILL),
            "engine": lambda: self._signal(self._processes("vizdoom"), signal.SIGKILL),
            "stopped engine": lambda: self._signal(self._processes("vizdoom"), signal.SIGSTOP),
            "node": self._lose_node,
            "driver": self._lose_driver,
        }
        done = hurt[kind]()
        self.killed[kind] += done
        return done

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self._driver.kill()
        self._driver.wait()
        self._cluster.shutdown()

    def story(self) -> str:
        """What the drivers said of their workers, and the last one's last words."""
        logs = [(self.out / f"driver-{n}.log").read_text() for n in range(1, self.starts + 1)]
        lines = [f"{n}: {line[:160]}" for n, log in enumerate(logs, 1) for line in log.splitlines() if "worker" in line]
        return "\n".join([*lines, logs[-1][-1500:]])

    def _processes(self, name: str) -> list[psutil.Process]:
        return [process for process in descendants(name) if not _is_stopped(process)]

    def _signal(self, processes: list[psutil.Process], what: signal.Signals) -> bool:
        if not processes:
            return False
        with suppress(psutil.NoSuchProcess):
            self.chance.choice(processes).send_signal(what)
        return True

    def _lose_node(self) -> bool:
        self._cluster.remove_node(self._node, allow_graceful=False)
        self._node = self._cluster.add_node(num_cpus=NODE_CPUS)
        return True

    def _lose_driver(self) -> bool:
        if self.ended is not None:
            return False
        self._driver.kill()
        self._driver.wait()
        self.start_driver()
        return True


def disturbed_run(setting: Setting, out: Path, tell: Callable[[str], None] = print) -> Counter[str]:
    """Play with all the kills that the setting plans. Raises AssertionError where the run does not end well."""
    stage = Stage(setting, out, random.Random(setting.seed))
    due = setting.schedule()
    over = time.monotonic() + setting.limit_s
    stage.open()
    try:
        while (code := stage.ended) is None:
            assert time.monotonic() < over, f"not done within {setting.limit_s:g} s: {stage.story()}"
            if due and stage.committed() >= due[0][0] and stage.kill(due[0][1]):
                tell(f"{stage.committed()} of {setting.units} units committed: killed a {due.pop(0)[1]}")
            time.sleep(0.02)
        assert code == 0, f"the driver ended with {code}: {stage.story()}"
        assert not due, f"the run was over before the last {len(due)} kills"
    finally:
        stage.close()
    return stage.killed


def _is_stopped(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return True


@contextmanager
def marked(folder: Path) -> Iterator[str]:
    """Whatever is started inside carries a mark, wherever its parents go, and has `folder` for its temporary files."""
    mark = uuid.uuid4().hex
    before = {name: os.environ.get(name) for name in (MARK_NAME, "TMPDIR")}
    os.environ |= {MARK_NAME: mark, "TMPDIR": str(folder)}
    try:
        yield mark
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ |= {} if value is None else {name: value}


def leftovers(mark: str, scratch: Path, memory: EngineMemory) -> list[str]:
    """Processes with the mark, engines' shared memory, and scratch folders that the next run would not sweep (who dies
    in the last moment has nobody left to do it)."""
    psutil.wait_procs(_marked(mark), timeout=10)  # workers of a lost node are nobody's children any more
    left = [*scratch_left(scratch), *sorted(memory.lost())]
    for process in _marked(mark):
        with suppress(psutil.NoSuchProcess):
            left.append(f"process {process.pid} {process.name()}")
    return left


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if is_marked(process, mark):
                found.append(process)
    return found


def chaos(setting: Setting, folder: Path, tell: Callable[[str], None] = print) -> Counter[str]:
    """The disturbed and the undisturbed run, compared; raises AssertionError with what differs or is left."""
    disturbed, calm, scratch = folder / "disturbed", folder / "calm", folder / "t"
    for place in (disturbed, scratch):
        place.mkdir()
    with marked(scratch) as mark, EngineMemory(lambda process: is_marked(process, mark)) as memory:
        killed = disturbed_run(setting, disturbed, tell)
        left = leftovers(mark, scratch, memory)
    assert left == [], f"left behind: {left}"
    private = [
        str(path) for path in (disturbed / RUN_ID).rglob("*") if ".staging" in path.parts or ".tmp-" in path.name
    ]
    assert private == [], f"left behind: {private}"
    subprocess.run(setting.command(calm, "--actors", "2"), check=True, stdout=subprocess.DEVNULL)
    assert_same_data(disturbed / RUN_ID, calm / RUN_ID)
    subprocess.run([*CONSOLE, "verify", str(disturbed / RUN_ID)], check=True, stdout=subprocess.DEVNULL)
    return killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=Setting.kills)
    parser.add_argument("--seed", type=int, default=Setting.seed)
    parser.add_argument("--seeds", type=int, default=Setting.seeds, help="episodes of each scenario")
    asked = parser.parse_args()
    setting = Setting(seeds=asked.seeds, kills=asked.kills, seed=asked.seed)
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        killed = chaos(setting, Path(folder), lambda text: print(text, flush=True))
    print(f"{setting.units} units, {sum(killed.values())} kills {dict(killed)}: the tables are those of a calm run")


if __name__ == "__main__":
    main()
