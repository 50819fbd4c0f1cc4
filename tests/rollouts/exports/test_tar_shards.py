"""Tar shards, as the `webdataset` library reads them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollouts.shards.schemas import STEPS
from tests.exported_runs import make, pixels, played
from tests.rollouts.exports.conftest import Exported

pytestmark = pytest.mark.filterwarnings(  # `webdataset` leaves the shards that it read to the garbage collector
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def samples(out: Path) -> list[dict[str, Any]]:
    import webdataset

    shards = sorted(map(str, out.glob("*.tar")))
    return list(webdataset.WebDataset(shards, shardshuffle=False, empty_check=False).decode("rgb8"))


def test_webdataset_reads_picture_and_row(exported: Exported) -> None:
    out, told = exported("webdataset")
    found = samples(out)
    assert [sample["__key__"] for sample in found] == [f"{n:09d}" for n in range(6)]
    assert told["left_out"] == {"superseded": 1}
    for sample, (seed, tick) in zip(found, [(1, 0), (1, 1), (1, 2), (3, 0), (2, 0), (2, 1)], strict=True):
        assert np.array_equal(sample["png"], pixels(seed, tick))
        assert (sample["json"]["seed"], sample["json"]["tick"]) == (seed, tick)
        assert set(sample["json"]) == set(STEPS.names) - {"frame"}
    assert found[0]["json"]["decided_at"] == "2030-01-01T12:00:00+00:00"


def test_no_shard_is_larger_than_asked_and_all_are_read(exported: Exported) -> None:
    """A picture is some 1,500 bytes here, a row 1,500 of JSON: with headers two samples fit into 12,288 bytes."""
    out, _ = exported("webdataset", "--shard-mb", "0.012288")
    shards = sorted(out.glob("*.tar"))
    assert [shard.name for shard in shards] == [f"shard-{n:06d}.tar" for n in range(len(shards))]
    assert len(shards) >= 3
    for shard in shards:
        with tarfile.open(shard) as tar:
            content = sum(512 + -(-member.size // 512) * 512 for member in tar)
        assert content + 1024 <= 12_288
    assert [sample["__key__"] for sample in samples(out)] == [f"{n:09d}" for n in range(6)]


def test_a_weight_stands_in_the_json(exported: Exported) -> None:
    out, told = exported("webdataset", "--credit")
    assert [sample["json"]["weight"] for sample in samples(out)] == [-0.5, 0.25, 1.0]
    assert told["left_out"] == {"superseded": 1, "no_credit": 3}


def test_rows_without_a_frame_are_left_out(exported: Exported, tmp_path: Path) -> None:
    units = ({1: played(1, "dd", pictures=False)}, {2: played(2, "d")})
    make(tmp_path / "mixed", "mixed", units)
    out, told = exported("webdataset", runs=(tmp_path / "mixed" / "mixed",))
    assert (told["written"], told["left_out"]) == (1, {"no_frame": 2})
    assert len(samples(out)) == 1


def test_equal_rows_make_equal_bytes(exported: Exported) -> None:
    first, second = exported("webdataset")[0], exported("webdataset")[0]
    assert (first / "shard-000000.tar").read_bytes() == (second / "shard-000000.tar").read_bytes()


@pytest.mark.parametrize("form", ["sft", "preference", "lerobot"])
def test_the_others_are_equal_too(exported: Exported, form: str) -> None:
    first, second = exported(form)[0], exported(form)[0]
    files = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    data = [path for path in files if path.name != "export.json"]
    assert [(first / path).read_bytes() for path in data] == [(second / path).read_bytes() for path in data]
