"""How fast the rows of a run are read for training: frames of 320×240 to uint8 tensors, beside `datasets`.

`python -m benchmarks.reading` plays a small run of both published scenarios (or takes `--run`), links it as often as
`--rows` takes, and reads it

    ours            with the torch reader and one loader worker, in batches
    ours, here      the same without a worker
    datasets        the same shards with `datasets` (streaming, pictures to arrays), one loader worker, in batches

in turns. Each is timed from its first batch on, so that starting a worker does not count. A pass over all rows is then
watched for its memory. Files are in the page cache: what is measured is decoding and handing over, not a disk.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader

from rollouts.cli import main as rollouts
from rollouts.errors import RunStopped
from rollouts.readers import count_rows, open_rows, torch_dataset

GOAL_FRAMES_PER_S = 3_000
BATCH = 64
SETTLED_ROWS = 2_000
_SMALL = ("--scenario", "published", "--policy", "oracle", "--policy", "random", "--seeds", "0:6", "--pool", "local")
_MIB = 2**20
_CPU_CLOCK_S = 0.01
Batches = Iterable[torch.Tensor]


@dataclass(frozen=True)
class Memory:
    """Resident MiB of the one process that reads: after SETTLED_ROWS rows, at the end, and the most from there on."""

    rows: int
    settled_mib: float
    last_mib: float
    most_mib: float


def ours(runs: Sequence[str], workers: int) -> Batches:
    dataset = torch_dataset(runs, ["frame"], batch_size=BATCH)
    return (item["frame"] for item in DataLoader(dataset, batch_size=None, num_workers=workers))


def theirs(runs: Sequence[str]) -> Batches:
    """The same shards, by their names."""
    pieces = open_rows(runs, ["frame"]).pieces
    files = list(dict.fromkeys(piece.shard.describe() for piece in pieces))
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True).select_columns(["frame"])
    loader: Batches = DataLoader(stream, batch_size=BATCH, num_workers=1, collate_fn=_stack)
    return loader


def _stack(rows: Sequence[dict[str, Any]]) -> torch.Tensor:
    return torch.stack([torch.from_numpy(np.array(row["frame"])) for row in rows])


@dataclass(frozen=True)
class Speed:
    """From the arrival of the first batch to that of the last: frames a second, and a second of the processor time of
    the process that decodes (on a machine with other work the first says more of that work)."""

    frames_per_s: float
    frames_per_cpu_s: float


def speed(batches: Batches) -> Speed:
    frames, began, cpu_began, cpu_s = 0, 0.0, 0.0, 0.0
    for batch in batches:
        frames += len(batch) if began else 0
        began, cpu_s = began or time.perf_counter(), _decoding_cpu_s()
        cpu_began = cpu_began or cpu_s
        if batch.dtype != torch.uint8:
            raise RunStopped(f"frames came as {batch.dtype}, not as uint8")
    return Speed(frames / (time.perf_counter() - began), frames / max(cpu_s - cpu_began, _CPU_CLOCK_S))


def _decoding_cpu_s() -> float:
    """Of the one loader worker, or else of this process."""
    process = psutil.Process()
    times = [*process.children(), process][0].cpu_times()
    return float(times.user + times.system)


def watched(runs: Sequence[str], settled_rows: int = SETTLED_ROWS) -> Memory:
    """A pass in this process. Errors: `RunStopped` where it is too short."""
    process, rows, seen = psutil.Process(os.getpid()), 0, list[float]()
    for batch in ours(runs, workers=0):
        rows += len(batch)
        if rows > settled_rows:
            seen.append(process.memory_info().rss / _MIB)
    if not seen:
        raise RunStopped(f"{rows} rows are too few to watch the memory after {settled_rows}")
    return Memory(rows, seen[0], seen[-1], max(seen))


def linked(run: Path, rows: int, folder: Path) -> list[str]:
    """One run under as many names and ids as it takes for so many rows; all but `run.json` are links."""
    times = -(-rows // count_rows(run))
    copies = [folder / f"reading-{number}" for number in range(times)]
    record = json.loads((run / "run.json").read_text())
    for copy in copies:
        copy.mkdir()
        for part in run.absolute().iterdir():
            (copy / part.name).symlink_to(part)
        (copy / "run.json").unlink()
        (copy / "run.json").write_text(json.dumps({**record, "run_id": copy.name}))
    return [str(copy) for copy in copies]


def measure(run: Path, rows: int, rounds: int, folder: Path) -> dict[str, Any]:
    """The speed of each way, the median of `rounds`, and the memory of one pass over `rows` rows or more."""
    once, often = [str(run)], linked(run, rows, folder)
    ways: dict[str, Callable[[], Batches]] = {
        "ours": lambda: ours(often, workers=1),
        "ours, here": lambda: ours(once, workers=0),
        "datasets": lambda: theirs(once),
    }
    speeds = [{name: asdict(speed(way())) for name, way in ways.items()} for _ in range(rounds)]
    medians = {
        name: {unit: statistics.median(of_round[name][unit] for of_round in speeds) for unit in speeds[0][name]}
        for name in ways
    }
    return {**medians, "goal_frames_per_s": GOAL_FRAMES_PER_S, "memory": asdict(watched(often))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="the folder of a run with frames; without it a small one is played")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="doom-rollouts-bench-") as name:
        folder = Path(name)
        run = asked.run or _played(folder)
        print(json.dumps(measure(run, asked.rows, asked.rounds, folder), indent=1))


def _played(folder: Path) -> Path:
    with contextlib.redirect_stdout(sys.stderr):
        if rollouts(["run", *_SMALL, "--out", str(folder), "--run-id", "small"]):
            raise RunStopped("the small run did not complete")
    return folder / "small"


if __name__ == "__main__":
    main()
