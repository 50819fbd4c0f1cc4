"""The readers on a real S3 endpoint on loopback, in this process and in loader workers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from rollouts.evidence.committed_run import CommittedRun
from rollouts.readers import hf_dataset, read_table, torch_dataset
from rollouts.store.storage import open_storage
from tests.row_runs import keys_of, row_run
from tests.s3_servers import moto, running

pytestmark = pytest.mark.slow
SIZES = (10, 7, 1)


@pytest.fixture(scope="module")
def s3_run() -> Iterator[tuple[CommittedRun, str]]:
    """A run in a bucket, and the URI of its folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with running(moto) as endpoint:
            bucket = f"bucket-{secrets.token_hex(8)}"
            boto3.resource("s3", endpoint_url=f"http://{endpoint}").create_bucket(Bucket=bucket)
            options = f"?endpoint_override={endpoint}&scheme=http"
            run = row_run(open_storage(f"s3://{bucket}/out{options}"), SIZES, owed=1)
            yield run, f"s3://{bucket}/out/made{options}"


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
