"""Where a run lies: a local folder or any pyarrow filesystem URI (s3://, gs://). Knows nothing about runs.

Paths are relative to the storage's root, with `/`. Every public operation is one method, so that a test can kill at
a named step. A write is whole or absent: locally by a temporary name and a rename, on an object store by its put.
Transient faults are tried again with growing, jittered pauses (on top of the S3 client's own some six seconds);
whatever is left is a `StorageError` of one line.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from rollouts.errors import StorageError, UsageError
from rollouts.store.storage_faults import cause, is_missing, is_transient

TRIES = 4
FIRST_PAUSE_S = 0.25
CHUNK_BYTES = 1 << 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as listed: its path relative to the storage's root, its size, and when it was written (since 1970)."""

    path: str
    bytes: int
    changed_s: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Storage:
    """Files below a root on a pyarrow filesystem. `uri` opens the same root in another process.

    An object store has no conditional put: of two writers at the same instant the later one wins.
    """

    def __init__(self, uri: str, filesystem: Any, root: str, pause: Callable[[float], None] = time.sleep) -> None:
        self.uri = uri
        self.filesystem = filesystem
        self._root = root.rstrip("/")
        self._pause = pause

    @property
    def is_local(self) -> bool:
        return False

    def describe(self, path: str = "") -> str:
        """Where `path` is, in words for people: never a credential or a connection option."""
        return "/".join(part for part in (self.uri.partition("?")[0].rstrip("/"), path) if part)

    def full(self, path: str) -> str:
        """`path` as `filesystem` wants it."""
        return f"{self._root}/{path}" if path else self._root

    def check_writable(self, path: str = "") -> None:
        """`UsageError` where nothing can be written to the folder `path` (it need not exist). Writes nothing itself."""
        bucket = self._root.partition("/")[0]
        try:
            found = self._try("read", "", lambda: self.filesystem.get_file_info(bucket))
        except StorageError as error:
            raise UsageError(str(error)) from error
        if found.type == fs.FileType.NotFound:
            raise UsageError(f"cannot write to {self.describe(path)}: there is no bucket {bucket!r}")

    def read_bytes(self, path: str) -> bytes:
        """The whole of a small file; `FileNotFoundError` where there is none."""

        def read() -> bytes:
            with self._open(path) as file:
                return bytes(file.read())

        return self._try("read", path, read)

    def read_json(self, path: str) -> Any:
        """What a small JSON file says. Errors: `FileNotFoundError`, `ValueError` where it is no JSON.

        An object store is asked for the size and then for that many bytes: of a file that was replaced by a longer one
        in between, these are only the beginning. So what is no JSON there is read again.
        """
        for turn in range(TRIES):
            try:
                return json.loads(self.read_bytes(path))
            except ValueError:
                if self.is_local or turn + 1 == TRIES:
                    raise
            self._wait(turn)
        raise AssertionError("unreachable")

    def open_input(self, path: str) -> Any:
        """A seekable `pyarrow.NativeFile`; `FileNotFoundError` where there is none."""
        return self._try("read", path, lambda: self._open(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        """Put a small file whole, over what was there."""
        self._try("write", path, lambda: self._put(path, data))

    def put_file(self, local: Path, path: str) -> None:
        """Put a finished local file whole; `local` may be moved away by it."""
        data = _reading(local)
        self._try("write", path, lambda: self._put(path, data))

    def move(self, source: str, target: str, overwrite: bool = False) -> None:
        """Give a file its final name; `FileNotFoundError` where there is no `source`.

        Without `overwrite`, `FileExistsError` where `target` is there.
        """
        if not overwrite and self.exists(target):
            raise FileExistsError(self.describe(target))
        tries = itertools.count()

        def move() -> None:
            again = next(tries) > 0
            try:
                self.filesystem.move(self.full(source), self.full(target))
            except OSError as error:
                if not is_missing(error):
                    raise
                if not (again and self.exists(target)):  # else a try before this one did it, unheard
                    raise FileNotFoundError(self.describe(source)) from error

        self._try("write", target, move)

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        """Bytes of a file, None where there is no file."""
        info = self._try("read", path, lambda: self.filesystem.get_file_info(self.full(path)))
        return int(info.size) if info.type == fs.FileType.File else None

    def has_folder(self, path: str) -> bool:
        """Is there a folder, be it empty?"""
        info = self._try("read", path, lambda: self.filesystem.get_file_info(self.full(path)))
        return bool(info.type == fs.FileType.Directory)

    def list(self, path: str, recursive: bool = False) -> tuple[StoredFile, ...]:
        """The files in a folder, by name; () where there is no folder."""
        selector = fs.FileSelector(self.full(path), allow_not_found=True, recursive=recursive)
        infos = self._try("read", path, lambda: self.filesystem.get_file_info(selector))
        files = (info for info in infos if info.type == fs.FileType.File)
        cut = len(self._root) + 1
        found = (StoredFile(f.path[cut:], int(f.size), (f.mtime_ns or 0) / 1e9) for f in files)
        return tuple(sorted(found, key=lambda f: f.path))

    def sha256(self, path: str) -> str:
        """Hex digest of a file's bytes, read in chunks."""

        def digest() -> str:
            total = hashlib.sha256()
            with self._open(path) as file:
                while chunk := file.read(CHUNK_BYTES):
                    total.update(chunk)
            return total.hexdigest()

        return self._try("read", path, digest)

    def delete(self, path: str) -> None:
        """Remove a file; nothing happens where there is none."""
        with suppress(FileNotFoundError):
            self._try("delete", path, lambda: self.filesystem.delete_file(self.full(path)))

    def delete_tree(self, path: str) -> None:
        """Remove a folder and all in it; nothing happens where there is none."""
        with suppress(FileNotFoundError):
            self._try("delete", path, lambda: self.filesystem.delete_dir(self.full(path)))

    @contextmanager
    def exclusive(self, path: str) -> Iterator[None]:  # noqa: ARG002
        """Let one process at a time work on a folder, where the file system can promise that (local ones do)."""
        yield

    def _open(self, path: str) -> Any:
        return self.filesystem.open_input_file(self.full(path))

    def _put(self, path: str, data: bytes) -> None:
        stream = self.filesystem.open_output_stream(self.full(path))
        stream.write(data)
        stream.close()

    def _try(self, what: str, path: str, operation: Callable[[], T]) -> T:
        for turn in range(TRIES):
            try:
                return operation()
            except (FileNotFoundError, FileExistsError):
                raise
            except (OSError, pa.ArrowException) as error:
                if turn + 1 == TRIES or not is_transient(error):
                    raise StorageError(f"cannot {what} {self.describe(path)}: {cause(error)}") from error
            self._wait(turn)
        raise AssertionError("unreachable")

    def _wait(self, turn: int) -> None:
        self._pause(FIRST_PAUSE_S * 2**turn * random.uniform(0.5, 1.5))


def _reading(local: Path) -> bytes:
    try:
        return local.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {local}: {cause(error)}") from error
