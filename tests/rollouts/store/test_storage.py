"""Storage on real files and on a real S3 endpoint: whole or absent, patient with passing faults, one line otherwise."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from rollouts.errors import StorageError, UsageError
from rollouts.store.storage import LocalStorage, Storage, is_temporary, open_storage
from tests.shard_doubles import files_below


class FlakyFilesystem:
    """A local filesystem whose next calls fail with the given errors, one a call."""

    def __init__(self, *errors: Exception) -> None:
        self._inner = fs.LocalFileSystem()
        self._errors = list(errors)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if self._errors:
                raise self._errors.pop(0)
            return getattr(self._inner, name)(*args)

        return call


def flaky(root: Path, *errors: Exception) -> tuple[Storage, list[float]]:
    pauses: list[float] = []
    return Storage("s3://bucket/out?region=x", FlakyFilesystem(*errors), str(root), pauses.append), pauses


SLOW_DOWN = OSError("When uploading part for key 'k' in bucket 'b': AWS Error SLOW_DOWN during PutObject operation")
UNAVAILABLE = OSError("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.")


def test_files_come_and_go(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "out")
    storage.write_bytes("run/a", b"one")
    storage.write_bytes("run/a", b"two!")
    storage.write_bytes("run/deep/b", b"")
    assert storage.read_bytes("run/a") == b"two!"
    assert (storage.size("run/a"), storage.size("run/none"), storage.size("run")) == (4, None, None)
    assert (storage.exists("run/deep/b"), storage.exists("run/deep")) == (True, False)
    assert [(file.path, file.bytes) for file in storage.list("run")] == [("run/a", 4)]
    assert [file.path for file in storage.list("run", recursive=True)] == ["run/a", "run/deep/b"]
    assert storage.list("nowhere") == ()
    assert storage.sha256("run/a") == hashlib.sha256(b"two!").hexdigest()
    storage.delete("run/a")
    storage.delete("run/a")
    storage.delete_tree("run")
    storage.delete_tree("run")
    assert files_below(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        storage.read_bytes("run/a")


def test_a_move_overwrites_only_when_told(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write_bytes("a", b"new")
    storage.write_bytes("sub/b", b"old")
    with pytest.raises(FileExistsError):
        storage.move("a", "sub/b")
    assert (storage.read_bytes("a"), storage.read_bytes("sub/b")) == (b"new", b"old")
    storage.move("a", "sub/b", overwrite=True)
    storage.move("sub/b", "other/c")
    assert files_below(tmp_path) == ["other/c"]
    assert storage.read_bytes("other/c") == b"new"
    with pytest.raises(FileNotFoundError):
        storage.move("sub/b", "other/d")


def test_a_put_file_arrives_whole_also_from_another_disk(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm") if os.stat("/dev/shm").st_dev != os.stat(tmp_path).st_dev else tmp_path
    local = elsewhere / f"put-{os.getpid()}"
    local.write_bytes(b"x" * 3_000_000)
    LocalStorage(tmp_path / "out").put_file(local, "run/file")
    local.unlink(missing_ok=True)
    assert files_below(tmp_path / "out") == ["run/file"]
    assert (tmp_path / "out/run/file").stat().st_size == 3_000_000


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "in the way").mkdir()
    with pytest.raises(StorageError, match=r"cannot write .*in the way"):
        LocalStorage(tmp_path).write_bytes("in the way", b"x")
    assert files_below(tmp_path) == []


def test_temporary_names_are_known_and_are_no_shards() -> None:
    assert is_temporary(".part-0000000.parquet.tmp-0a1b2c3d")
    for name in ("part-0000000.parquet", ".part-0000000.parquet", "part.tmp-0a1b2c3d", ".gitignore"):
        assert not is_temporary(name)


def test_a_local_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("runs")
    assert storage.uri == str(tmp_path / "runs")
    monkeypatch.chdir("/")
    storage.write_bytes("a", b"x")
    assert files_below(tmp_path) == ["runs/a"]
    assert open_storage(f"file://{tmp_path}/runs").uri == str(tmp_path / "runs")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIAKEY:secret@bucket/out",
        "s3://AKIAKEY@bucket/out",
        "s3://bucket/out?secret_key=secret",
        "s3://bucket/out?region=x&session_token=secret",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(UsageError, match=r"s3://bucket/out: credentials do not belong") as refused:
        open_storage(uri)
    assert "secret" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)


@pytest.mark.parametrize("uri", ["ftp://host/x", "s3://", "nonsense://"])
def test_what_is_no_filesystem_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="as an output"):
        open_storage(uri)


def test_connection_options_are_not_shown() -> None:
    storage = open_storage("s3://bucket/out?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1")
    assert storage.describe("run/steps") == "s3://bucket/out/run/steps"


def test_an_output_below_a_file_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file, not a folder"):
        open_storage(tmp_path / "file" / "runs").check_writable()
    with pytest.raises(UsageError, match="is a file, not a folder"):
        open_storage(tmp_path).check_writable("file")
    open_storage(tmp_path / "new" / "runs").check_writable("run")
    assert files_below(tmp_path) == ["file"]
    with pytest.raises(StorageError, match="a part of the path is a file"):
        open_storage(tmp_path / "file").write_bytes("a", b"x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="no permission"):
        open_storage(tmp_path / "runs").check_writable()


def test_passing_faults_are_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    storage, pauses = flaky(tmp_path, SLOW_DOWN, UNAVAILABLE, OSError(errno.ETIMEDOUT, "timed out"))
    storage.write_bytes("a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"
    assert len(pauses) == 3
    for turn, pause in enumerate(pauses):
        assert 0.5 <= pause / (0.25 * 2**turn) <= 1.5


def test_what_does_not_pass_ends_in_one_line(tmp_path: Path) -> None:
    storage, pauses = flaky(tmp_path, *[UNAVAILABLE] * 4)
    with pytest.raises(
        StorageError, match=r"^cannot read s3://bucket/out/a: AWS Error UNKNOWN .HTTP status 503."
    ) as failed:
        storage.read_bytes("a")
    assert "\n" not in str(failed.value)
    assert len(pauses) == 3


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left"), "the disk is full"),
        (OSError(errno.EDQUOT, "quota"), "the disk quota is used up"),
        (PermissionError(errno.EACCES, "denied"), "permission denied"),
        (OSError(errno.EROFS, "read-only"), "the file system is read-only"),
        (OSError("When uploading: AWS Error ACCESS_DENIED during PutObject operation"), "permission denied"),
        (OSError("When uploading: AWS Error NO_SUCH_BUCKET during PutObject operation"), "NO_SUCH_BUCKET"),
    ],
)
def test_lasting_faults_are_not_tried_again(tmp_path: Path, error: Exception, says: str) -> None:
    storage, pauses = flaky(tmp_path, error)
    with pytest.raises(StorageError, match=f"cannot write s3://bucket/out/a: .*{says}"):
        storage.write_bytes("a", b"x")
    assert pauses == []


def test_a_move_that_was_done_unheard_counts(tmp_path: Path) -> None:
    class Unheard(FlakyFilesystem):
        def move(self, source: str, target: str) -> None:
            self._inner.move(source, target)
            raise SLOW_DOWN

    storage = Storage("s3://bucket/out", Unheard(), str(tmp_path), lambda _: None)
    (tmp_path / "a").write_bytes(b"x")
    storage.move("a", "b")
    assert files_below(tmp_path) == ["b"]


def test_only_one_process_commits_at_a_time(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)

    def is_locked() -> bool:
        handle = os.open(tmp_path / "run", os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    with storage.exclusive("run"):
        assert is_locked()
    assert not is_locked()
    with pytest.raises(RuntimeError), storage.exclusive("run"):
        raise RuntimeError
    assert not is_locked()
