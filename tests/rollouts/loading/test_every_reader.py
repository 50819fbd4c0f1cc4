"""What every reader must keep to: each row of a run once, its picture in RGB, the columns that were asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollouts.errors import UsageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.frames import FrameFormat, encode
from rollouts.readers import decode_frame, hf_dataset, iter_batches, read_table, torch_dataset
from tests.row_runs import ROOT, Shard, answering, picture, place, planes, row_run

pytestmark = pytest.mark.slow
Row = dict[str, Any]
COLUMNS = ["frame", "state", "tick", "seed"]
SIZES = (10, 7, 1)


def tabled(run: str, **filters: Any) -> list[Row]:
    return [_opened(row) for row in read_table(run, COLUMNS, **filters).to_pylist()]


def batched(run: str, **filters: Any) -> list[Row]:
    return [_opened(row) for batch in iter_batches(run, COLUMNS, **filters) for row in batch.to_pylist()]


def torch_rows(run: str, **filters: Any) -> list[Row]:
    pytest.importorskip("torch", reason="torch is an extra")
    rows = torch_dataset(run, COLUMNS, **filters)
    return [{**row, "frame": row["frame"].numpy().transpose(1, 2, 0)} for row in rows]


def streamed(run: str, **filters: Any) -> list[Row]:
    return [_rgb(row) for row in hf_dataset(run, COLUMNS, **filters)]


def in_memory(run: str, **filters: Any) -> list[Row]:
    return [_rgb(row) for row in hf_dataset(run, COLUMNS, streaming=False, **filters)]


READERS = [tabled, batched, torch_rows, streamed, in_memory]


def _opened(row: Row) -> Row:
    return {**row, "frame": decode_frame(row["frame"]["bytes"])}


def _rgb(row: Row) -> Row:
    assert row["frame"].mode == "RGB"
    return {**row, "frame": np.asarray(row["frame"])}


@pytest.fixture(params=["png", "png-rgb"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> CommittedRun:
    """Palette pictures and RGB ones; every second answer of the policy is not the teacher's."""
    fmt: FrameFormat = request.param
    decide = answering(["turn left", "attack"] * 5)
    return row_run(tmp_path, [Shard(n, decide=decide, frame=lambda u, t: encode(picture(u, t), fmt)) for n in SIZES])


@pytest.mark.parametrize("read", READERS)
def test_each_row_comes_once_with_its_picture(run: CommittedRun, read: Callable[..., list[Row]]) -> None:
    rows = sorted(read(place(run)), key=lambda row: (row["seed"], row["tick"]))
    assert [(row["seed"] - 1, row["tick"]) for row in rows] == [(n, t) for n, k in enumerate(SIZES) for t in range(k)]
    for row in rows:
        assert [*row] == COLUMNS
        assert row["state"] == f"Nothing is in view at decision {row['tick']}."
        assert np.array_equal(row["frame"].transpose(2, 0, 1), planes(row["seed"] - 1, row["tick"]))


@pytest.mark.parametrize("read", READERS)
def test_filters_hold_for_all(run: CommittedRun, read: Callable[..., list[Row]]) -> None:
    rows = read(place(run), disagreement="effective")
    assert sorted((row["seed"], row["tick"]) for row in rows) == [(1, t) for t in (1, 3, 5, 7, 9)] + [
        (2, t) for t in (1, 3, 5)
    ]


def test_streams_shuffle_split_and_go_on(tmp_path: Path) -> None:
    """What `datasets` does by itself: two nodes share the row groups, and a position can be stored."""
    from datasets.distributed import split_dataset_by_node

    run = row_run(tmp_path, (4, 3, 2, 1))
    stream = hf_dataset(place(run), ["seed", "tick"])
    assert stream.num_shards == 4
    parts = [list(split_dataset_by_node(stream, rank=rank, world_size=2)) for rank in range(2)]
    assert sorted((row["seed"], row["tick"]) for part in parts for row in part) == [
        (seed, tick) for seed, rows in enumerate((4, 3, 2, 1), 1) for tick in range(rows)
    ]
    mixed = stream.shuffle(seed=1, buffer_size=5)
    assert [*mixed] != [*stream]
    rows = iter(stream)
    taken = [next(rows) for _ in range(5)]
    fresh = hf_dataset(place(run), ["seed", "tick"])
    fresh.load_state_dict(stream.state_dict())
    assert [*taken, *fresh] == [*hf_dataset(place(run), ["seed", "tick"])]


def test_nothing_to_read_is_told_by_the_readers_for_training(tmp_path: Path) -> None:
    run = row_run(tmp_path, [2])
    assert hf_dataset(place(run), COLUMNS, streaming=False, disagreement="model").num_rows == 0
    with pytest.raises(UsageError, match=r"^there is no row to stream"):
        hf_dataset(place(run), COLUMNS, disagreement="model")


@pytest.mark.parametrize(("call", "package"), [("torch_dataset", "torch"), ("hf_dataset", "datasets")])
def test_without_its_package_a_reader_says_how_to_get_it(tmp_path: Path, call: str, package: str) -> None:
    """As where the extra is not installed: the package cannot be found."""
    code = f"""
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == {package!r} else found(name, *more)
import rollouts.readers
assert {package!r} not in sys.modules
try:
    rollouts.readers.{call}("nowhere")
except rollouts.readers.UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout == f"{call} needs {package}: pip install 'doom-rollouts[train]'\n", done.stderr
