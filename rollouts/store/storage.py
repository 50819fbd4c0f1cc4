"""Opens the place where a run lies: a local folder or any pyarrow filesystem URI (s3://, gs://)."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from pyarrow import fs

from rollouts.errors import StorageError, UsageError
from rollouts.store.storage_base import Storage, StoredFile
from rollouts.store.storage_faults import cause

__all__ = ["LocalStorage", "Storage", "StoredFile", "is_temporary", "open_storage"]

LOCK_S = 10.0
_TEMPORARY = re.compile(r"\..+\.tmp-[0-9a-f]{8}")


class LocalStorage(Storage):
    """A folder of this machine, or a network file system mounted here."""

    def __init__(self, root: Path, pause: Callable[[float], None] = time.sleep) -> None:
        path = root.expanduser().absolute()
        super().__init__(str(path), fs.LocalFileSystem(), str(path), pause)
        self._one_thread = threading.Lock()

    @property
    def is_local(self) -> bool:
        return True

    def describe(self, path: str = "") -> str:
        return str(self.local_path(path))

    def local_path(self, path: str) -> Path:
        return Path(self.full(path))

    def check_writable(self, path: str = "") -> None:
        folder = self.local_path(path)
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir():
            raise UsageError(f"cannot write to {self.describe(path)}: {folder} is a file, not a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"cannot write to {self.describe(path)}: no permission to write in {folder}")

    def put_file(self, local: Path, path: str) -> None:
        self._try("write", path, lambda: self._take(local, self.local_path(path)))

    def move(self, source: str, target: str, overwrite: bool = False) -> None:
        self._try("write", target, lambda: _rename(self.local_path(source), self.local_path(target), overwrite))

    @contextmanager
    def exclusive(self, path: str) -> Iterator[None]:
        """A lock on the folder itself, gone with its process. Where the file system has none (some NFS), no lock.

        Threads of this process queue up before it, so that none of them has to poll for what another one holds.
        """
        folder = self.local_path(path)
        with self._one_thread:
            self._try("write", path, lambda: _make_folder(folder))
            handle = self._try("read", path, lambda: os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            try:
                _lock(handle, f"{self.describe(path)} is locked by another process for more than {LOCK_S:.0f} s")
                yield
            finally:
                os.close(handle)

    def _put(self, path: str, data: bytes) -> None:
        target = self.local_path(path)
        with _temporary(target) as temporary:
            try:
                _write_through(temporary, data)
            except FileNotFoundError:  # its folder is not there yet
                _make_folder(target.parent)
                _write_through(temporary, data)
            temporary.replace(target)

    def _take(self, local: Path, target: Path) -> None:
        _make_folder(target.parent)
        with _temporary(target) as temporary:
            shutil.move(local, temporary)
            temporary.replace(target)


def open_storage(location: str | Path, pause: Callable[[float], None] = time.sleep) -> Storage:
    """The storage at a local path (made absolute) or a filesystem URI.

    Errors: `UsageError` where the URI holds credentials (they belong in the environment) or cannot be understood.
    """
    text = str(location)
    if "://" not in text:
        return LocalStorage(Path(text), pause)
    refuse_credentials(text)
    try:
        filesystem, root = fs.FileSystem.from_uri(_with_plain_puts(text))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"cannot use {text.partition('?')[0]} as an output: {cause(error)}") from error
    if not root.strip("/"):
        raise UsageError(f"cannot use {text} as an output: it names no bucket or folder")
    if isinstance(filesystem, fs.LocalFileSystem):
        return LocalStorage(Path(root), pause)
    return Storage(text, filesystem, root, pause)


def is_temporary(name: str) -> bool:
    """Was `name` given to a file on its way here? Left behind only by a process that was killed."""
    return _TEMPORARY.fullmatch(name) is not None


def _with_plain_puts(uri: str) -> str:
    """Small files in S3 as one request instead of a multipart upload's three."""
    if not uri.startswith("s3://") or "allow_delayed_open" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}allow_delayed_open=true"


def refuse_credentials(uri: str) -> None:
    """Errors: `UsageError` where the URI holds credentials."""
    parts = urlsplit(uri)
    user = parts.netloc.rpartition("@")[0]
    secrets = [name for name, _ in parse_qsl(parts.query) if re.search(r"key|secret|token|password", name)]
    if ":" in user or (user and parts.scheme == "s3") or secrets:
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise UsageError(f"{place}: credentials do not belong in a URI; set them in the environment or a profile")


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A name beside `target` that no reader's glob takes; nothing of it stays when the write fails."""
    temporary = target.with_name(f".{target.name}.tmp-{os.urandom(4).hex()}")
    try:
        yield temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_through(file: Path, data: bytes) -> None:
    """Down to the disk."""
    with file.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error
    except FileNotFoundError as error:  # where the kernel makes the folders, as in /proc
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder)) from error


def _rename(source: Path, target: Path, overwrite: bool) -> None:
    _make_folder(target.parent)
    if overwrite:
        source.replace(target)
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        if target.exists():
            raise FileExistsError(str(target)) from error
        source.replace(target)
        return
    source.unlink()


def _lock(handle: int, refusal: str) -> None:
    """Wait for up to LOCK_S; the holder commits one unit and lets go."""
    over, pause = time.monotonic() + LOCK_S, 0.001
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > over:
                raise StorageError(refusal) from None
        except OSError:
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
