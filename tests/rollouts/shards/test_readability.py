"""What others read the shards with: pyarrow, pandas, datasets and Ray Data, beside files that no reader should take."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from rollouts.frames import FrameFormat, encode
from rollouts.records import Frame, UnitReport
from rollouts.run.run_folder import RunFolder
from rollouts.shards.writing import StepWriter, write_episodes
from rollouts.store.storage import LocalStorage
from tests.shard_doubles import OPTIONS, RUN_ID, decision, episode, provenance, unit

ROWS = 6
UNITS = (unit(0, (1,)), unit(1, (2,)))


def picture(seed: int, tick: int) -> Frame:
    """A palette frame of random indices, whose palette is no grey ramp."""
    source = np.random.default_rng((seed, tick))
    palette = np.random.default_rng(0).integers(0, 256, (256, 3), np.uint8)
    return Frame(source.integers(0, 256, (24, 32), np.uint8), palette)


@pytest.fixture(params=["png", "png-rgb"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A committed run of two units with frames, and what killed processes leave."""
    fmt: FrameFormat = request.param
    folder = RunFolder(LocalStorage(tmp_path), RUN_ID)
    lease = folder.acquire()
    folder.create(lease, {}, UNITS)
    for of in UNITS:
        (key,) = of.keys()
        writer = StepWriter(tmp_path / "steps.spool", of.part, RUN_ID, 4, OPTIONS)
        writer.begin(key)
        for tick in range(ROWS):
            writer.append(decision(tick), encode(picture(key.seed, tick), fmt))
        writer.commit_episode()
        steps = writer.close()
        final = episode(key, ROWS, final_frame=picture(key.seed, ROWS))
        episodes = write_episodes(
            tmp_path / "episodes.spool", [final], steps, provenance(of), lambda frame: encode(frame, fmt)
        )
        attempt = lease.next_attempt()
        folder.stage(of, attempt, tmp_path / "steps.spool", tmp_path / "episodes.spool")
        assert folder.promote(lease, UnitReport(of.number, attempt, steps, episodes, ROWS, 0, (None,)))
    (tmp_path / RUN_ID / "steps" / ".part-0000002.parquet.tmp-0a1b2c3d").write_bytes(b"half a fi")
    (tmp_path / RUN_ID / "steps" / ".part-0000003.parquet.tmp-0a1b2c3d").write_bytes(b"")
    return tmp_path / RUN_ID


def expected() -> Iterator[tuple[str, int, NDArray[np.uint8]]]:
    for of in UNITS:
        for tick in range(ROWS):
            seed = of.episodes[0].seed
            yield f"defend_the_center.rule.oracle.{seed}.0", tick, picture(seed, tick).rgb()


def check_rows(found: list[tuple[str, int, NDArray[np.uint8]]]) -> None:
    wanted = list(expected())
    found.sort(key=lambda row: row[:2])
    assert [row[:2] for row in found] == [row[:2] for row in wanted]
    for (_, _, pixels), (_, _, true) in zip(found, wanted, strict=True):
        assert np.array_equal(pixels, true)


def rgb(data: bytes) -> NDArray[np.uint8]:
    """As a stranger does it: Pillow, and a turn into RGB."""
    with Image.open(BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def test_pyarrow_reads_the_folder(run: Path) -> None:
    rows = ds.dataset(run / "steps", format="parquet").to_table().to_pylist()
    check_rows([(row["episode_id"], row["tick"], rgb(row["frame"]["bytes"])) for row in rows])
    assert pq.read_table(run / "episodes").num_rows == 2


def test_pandas_reads_the_folder(run: Path) -> None:
    frame = pd.read_parquet(run / "steps")
    assert frame.shape[0] == 2 * ROWS
    assert frame["seed"].dtype == np.int64
    assert list(frame["options"].iloc[0]) == list(OPTIONS)
    columns = zip(frame["episode_id"], frame["tick"], frame["frame"], strict=True)
    check_rows([(episode_id, tick, rgb(picture["bytes"])) for episode_id, tick, picture in columns])


@pytest.mark.parametrize("streaming", [False, True])
def test_datasets_shows_rgb_pictures_without_extra_code(
    run: Path, tmp_path: Path, streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    cache = str(tmp_path / "cache")
    steps = datasets.load_dataset(
        "parquet", data_files=str(run / "steps" / "*.parquet"), split="train", streaming=streaming, cache_dir=cache
    )
    assert steps.features["frame"] == datasets.Image(mode="RGB")
    rows = list(steps)
    assert {row["frame"].mode for row in rows} == {"RGB"}
    check_rows([(row["episode_id"], row["tick"], np.asarray(row["frame"])) for row in rows])


def test_datasets_shows_final_frames(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    episodes = datasets.load_dataset(
        "parquet", data_files=str(run / "episodes" / "*.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert episodes[0]["final_frame"].mode == "RGB"
    assert np.array_equal(np.asarray(episodes[1]["final_frame"]), picture(2, ROWS).rgb())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_data_reads_the_folder(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    import ray

    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    try:
        rows = ray.data.read_parquet(str(run / "steps")).take_all()
    finally:
        ray.shutdown()
    check_rows([(row["episode_id"], row["tick"], rgb(row["frame"]["bytes"])) for row in rows])
