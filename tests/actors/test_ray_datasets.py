"""Rows as Ray reads them: the same as every other reader's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rollouts.errors import UsageError
from rollouts.evidence.committed_run import CommittedRun
from tests.row_runs import ROOT, Shard, answering, large_run, place, planes, row_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SIZES = (10, 7, 1)
COLUMNS = ["frame", "state", "tick", "seed"]
ROWS = [(unit + 1, tick) for unit, rows in enumerate(SIZES) for tick in range(rows)]


@pytest.fixture(scope="module")
def ray_data(ray_dir: str) -> Iterator[Any]:
    import ray

    ray.init(
        "local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        _temp_dir=ray_dir,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    from actors import datasets

    yield datasets
    ray.shutdown()


@pytest.fixture
def run(tmp_path: Path) -> CommittedRun:
    decide = answering(["turn left", "attack"] * 5)
    return row_run(tmp_path, [Shard(rows, decide=decide) for rows in SIZES])


def check(rows: list[dict[str, Any]]) -> None:
    assert sorted((row["seed"], row["tick"]) for row in rows) == ROWS
    for row in rows:
        assert np.array_equal(row["frame"].transpose(2, 0, 1), planes(row["seed"] - 1, row["tick"]))


def test_each_row_comes_once_with_its_picture(ray_data: Any, run: CommittedRun) -> None:
    dataset = ray_data.ray_dataset(place(run), COLUMNS, decode=True)
    assert dataset.count() == 18
    check(dataset.take_all())


def test_rows_are_shuffled_as_stored_and_decoded_then(ray_data: Any, run: CommittedRun) -> None:
    shuffled = ray_data.ray_dataset(place(run), COLUMNS).random_shuffle(seed=1)
    rows = shuffled.map_batches(ray_data.decode_frames, batch_format="pyarrow").take_all()
    check(rows)
    assert [(row["seed"], row["tick"]) for row in rows] != ROWS


def test_decoding_frames_that_were_not_asked_for_is_refused(ray_data: Any) -> None:
    with pytest.raises(UsageError, match="no frames to decode, only seed, tick: ask for the column frame"):
        ray_data.decode_frames(pa.table({"seed": [1], "tick": [0]}))


def test_frames_of_a_hundred_kilobytes_are_shuffled(ray_data: Any, tmp_path: Path) -> None:
    """Row groups are Ray's blocks, so none is near what an Arrow array holds at most."""
    blocks = ray_data.ray_dataset(large_run(tmp_path, 1_000), ["seed", "tick", "frame"]).random_shuffle(seed=1)
    rows = [(row["seed"], row["tick"], len(row["frame"]["bytes"])) for row in blocks.iter_rows()]
    assert sorted(row[:2] for row in rows) == [(seed, tick) for seed in (1, 2) for tick in range(500)]
    assert sum(row[2] for row in rows) > 1_000 * 100_000


def test_the_snippet_of_the_readme(ray_data: Any, run: CommittedRun, capsys: pytest.CaptureFixture[str]) -> None:
    snippet = (
        (ROOT / "README.md").read_text().partition("<!-- readme-test: ray_rows -->\n```python\n")[2].partition("```")[0]
    )
    exec(compile(snippet, "README.md: ray_rows", "exec"), {"RUN": place(run)})
    assert capsys.readouterr().out.strip().endswith("(12, 16, 3)")


def test_filters_hold(ray_data: Any, run: CommittedRun) -> None:
    rows = ray_data.ray_dataset(place(run), ["seed", "tick"], disagreement="model").take_all()
    assert sorted((row["seed"], row["tick"]) for row in rows) == [row for row in ROWS if row[1] % 2]


def test_a_damaged_frame_is_told_with_its_shard_and_row(ray_data: Any, tmp_path: Path) -> None:
    run = row_run(tmp_path, [Shard(2, frame=lambda unit, tick: b"no picture")])
    with pytest.raises(Exception, match=r"part-0000000\.parquet, row 0: the frame cannot be decoded"):
        ray_data.ray_dataset(place(run), decode=True).take_all()
