"""The readers on a real S3 endpoint on loopback, in this process and in loader workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rollouts.evidence.committed_run import CommittedRun
from rollouts.readers import hf_dataset, read_table, torch_dataset
from rollouts.store.storage import open_storage
from tests.row_runs import keys_of, row_run
from tests.s3_servers import new_bucket, object_store, uri_in

pytestmark = pytest.mark.slow
SIZES = (10, 7, 1)


@pytest.fixture(scope="module")
def s3_run() -> Iterator[tuple[CommittedRun, str]]:
    """A run in a bucket, and the URI of its folder."""
    with object_store() as place:
        bucket = new_bucket(place)
        run = row_run(open_storage(uri_in(place, bucket, "out")), SIZES, owed=1)
        yield run, uri_in(place, bucket, "out/made")


def keys(rows: Any) -> list[tuple[str, int]]:
    return [(row["episode_id"], row["tick"]) for row in rows]


def test_tables_and_streams_are_read_from_a_bucket(s3_run: tuple[CommittedRun, str]) -> None:
    run, uri = s3_run
    assert keys(read_table(uri, ["episode_id", "tick"]).to_pylist()) == keys_of(run, SIZES)
    stream = hf_dataset(uri, ["episode_id", "tick", "frame"])
    assert keys(stream) == keys_of(run, SIZES)


def test_loader_workers_open_the_bucket_for_themselves(s3_run: tuple[CommittedRun, str]) -> None:
    """Forked, after this process has read from it."""
    torch = pytest.importorskip("torch", reason="torch is an extra")
    run, uri = s3_run
    dataset = torch_dataset(uri, ["episode_id", "tick", "frame"])
    next(iter(dataset))
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert sorted(keys(loader)) == keys_of(run, SIZES)
