"""The run folder on a real S3 endpoint on loopback: the same promises, and none that an object store cannot keep."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from rollouts.errors import LeaseError, StorageError, UsageError
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import Storage, open_storage
from tests.s3_servers import new_bucket, object_store, running, unavailable, uri_in
from tests.shard_doubles import PLAN, RUN_ID, drive, play, stage, start

pytestmark = pytest.mark.slow
SHARDS = [f"episodes/part-000000{i}.parquet" for i in range(4)] + [f"steps/part-000000{i}.parquet" for i in (0, 1, 3)]
WHOLE = sorted(["lease.json", "plan/0000000.parquet", "run.json", *SHARDS])


class KilledError(BaseException):
    """Nothing of ours catches it, as nothing catches a SIGKILL."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_store() as place:
        yield place


@pytest.fixture
def bucket(endpoint: str) -> Any:
    return new_bucket(endpoint)


@pytest.fixture
def uri(endpoint: str, bucket: Any) -> str:
    return uri_in(endpoint, bucket, "out")


def keys(bucket: Any) -> list[str]:
    """Files of the run; an object store's empty folder marks left out."""
    found = [entry.key.removeprefix(f"out/{RUN_ID}/") for entry in bucket.objects.all()]
    return sorted(key for key in found if key and not key.endswith("/"))


def rows(storage: Storage) -> list[tuple[str, int]]:
    folder = storage.full(f"{RUN_ID}/steps")
    table = ds.dataset(folder, filesystem=storage.filesystem, format="parquet").to_table(["episode_id", "tick"])
    return sorted((row["episode_id"], row["tick"]) for row in table.to_pylist())


def test_a_run_lies_in_a_bucket_as_in_a_folder(uri: str, bucket: Any, tmp_path: Path) -> None:
    drive(open_storage(uri))
    drive(open_storage(tmp_path))
    assert keys(bucket) == WHOLE
    assert rows(open_storage(uri)) == rows(open_storage(tmp_path))
    assert drive(open_storage(uri)) == 0


@pytest.mark.parametrize("after", [f"steps/{PLAN[1].part}", f"episodes/{PLAN[0].part}", "run.json", "plan"])
def test_an_interrupted_run_is_resumed(uri: str, bucket: Any, tmp_path: Path, after: str) -> None:
    class Killing(Storage):
        def move(self, source: str, target: str, overwrite: bool = False) -> None:
            super().move(source, target, overwrite)
            self._die_after(target)

        def write_bytes(self, path: str, data: bytes) -> None:
            super().write_bytes(path, data)
            self._die_after(path)

        def put_file(self, local: Path, path: str) -> None:
            super().put_file(local, path)
            self._die_after(path)

        def _die_after(self, path: str) -> None:
            if f"/{after}" in path and ".staging" not in path:
                raise KilledError

    storage = open_storage(uri)
    with pytest.raises(KilledError):
        drive(Killing(storage.uri, storage.filesystem, storage.full("")))
    make_the_holder_a_dead_process(storage)
    drive(storage)
    drive(open_storage(tmp_path))
    assert keys(bucket) == WHOLE
    assert rows(storage) == rows(open_storage(tmp_path))


def test_a_json_file_replaced_between_its_two_requests_is_read_whole(uri: str, bucket: Any) -> None:
    """pyarrow asks for the size and then for so many bytes: here a longer file comes in between, once."""

    class Replacing(Storage):
        longer: list[bytes] = [b'{"heartbeat": 1800000000.125}']  # noqa: RUF012

        def _open(self, path: str) -> Any:
            file = super()._open(path)
            while self.longer:
                self.write_bytes(path, self.longer.pop())
            return file

    calm = open_storage(uri)
    calm.write_bytes("lease.json", b'{"heartbeat": 1800000000}')
    storage = Replacing(calm.uri, calm.filesystem, calm.full(""), lambda _: None)
    assert storage.read_json("lease.json") == {"heartbeat": 1800000000.125}
    assert storage.longer == []


def make_the_holder_a_dead_process(storage: Storage) -> None:
    path = f"{RUN_ID}/lease.json"
    said = storage.read_bytes(path).decode()
    storage.write_bytes(path, said.replace('"process_started": 1', '"process_started": 0').encode())


def test_an_exception_in_the_middle_of_an_upload_leaves_no_shard(uri: str, bucket: Any) -> None:
    """Whatever a client's destructor then does with the half that it has: it is private, and not what was reported."""

    class Breaking(Storage):
        def _put(self, path: str, data: bytes) -> None:
            stream = self.filesystem.open_output_stream(self.full(path))
            stream.write(data[: len(data) // 2])
            raise KilledError

    storage = open_storage(uri)
    folder = RunFolder(storage, RUN_ID)
    lease = start(folder)
    breaking = RunFolder(Breaking(storage.uri, storage.filesystem, storage.full("")), RUN_ID)
    with tempfile.TemporaryDirectory() as scratch:
        _, steps, episodes = play(PLAN[0], Path(scratch), attempt := lease.next_attempt())
        with pytest.raises(KilledError):
            breaking.stage(PLAN[0], attempt, steps, episodes)
    assert [key for key in keys(bucket) if key.endswith(".parquet")] == ["plan/0000000.parquet"]
    assert folder.survey().committed == {}
    assert folder.promote(lease, stage(folder, PLAN[0], lease.next_attempt()))


def test_a_second_driver_is_refused(uri: str) -> None:
    start(RunFolder(open_storage(uri), RUN_ID))
    with pytest.raises(LeaseError, match="in use by process"):
        RunFolder(open_storage(uri), RUN_ID).acquire()


def test_a_bucket_that_is_not_there_is_said_at_once(endpoint: str) -> None:
    storage = open_storage(f"s3://no-such-bucket/out?endpoint_override={endpoint}&scheme=http")
    with pytest.raises(UsageError, match="there is no bucket 'no-such-bucket'"):
        storage.check_writable()
    with pytest.raises(StorageError, match="cannot write s3://no-such-bucket/out/a: "):
        storage.write_bytes("a", b"x")


def test_an_endpoint_that_always_says_503_is_asked_again_and_given_up() -> None:
    pauses: list[float] = []
    with running(unavailable) as place:
        uri = f"s3://bucket/out?endpoint_override={place}&scheme=http&region=us-east-1"
        with pytest.raises(StorageError, match=r"^cannot write s3://bucket/out/a: [^\n]*503[^\n]*$"):
            open_storage(uri, pauses.append).write_bytes("a", b"x")
    assert len(pauses) == 3
