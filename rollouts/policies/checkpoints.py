"""Checkpoint files of networks: only formats that are nothing but data, known by their hash.

Pickle (`.pt`, `.pth`, `.bin`) and TorchScript run code while they are read, so they are refused by name.
"""

from __future__ import annotations

import hashlib
import importlib
import socket
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from rollouts.errors import UsageError
from rollouts.scrub import describe_error
from rollouts.settings import unreadable

_RUNS_CODE = frozenset({".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib", ".torchscript", ".jit", ".pt2"})


def check_file(path: Path, suffix: str, policy: str) -> None:
    """Errors: UsageError naming the path where `path` is no readable file with that suffix."""
    if path.suffix.lower() in _RUNS_CODE:
        raise UsageError(
            f"policy {policy!r}: {path.name!r} is a pickle or TorchScript, which can run code when it is read: "
            f"save the weights as {suffix}"
        )
    if path.suffix.lower() != suffix:
        raise UsageError(f"policy {policy!r}: {path.name!r} must be a {suffix} file")
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"policy {policy!r}: {_place(path)}: {unreadable(error)}") from error


def check_folder(path: Path, policy: str) -> None:
    """Errors: UsageError naming the path where `path` is no folder."""
    if not path.is_dir():
        raise UsageError(
            f"policy {policy!r}: {_place(path)}: {'is a file, not a' if path.exists() else 'no such'} folder"
        )


def _place(path: Path) -> str:
    """A relative path means another file in another folder, and any path on another machine."""
    return f'"{path.absolute()}" on {socket.gethostname()}'


def hash_of(files: Iterable[Path]) -> str:
    """sha256 over the names and contents of `files`, in hex; the order in which they come does not matter."""
    whole = hashlib.sha256()
    for path in sorted(files):
        with path.open("rb") as file:
            whole.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def need(module: str, policy: str, extra: str) -> ModuleType:
    """An optional package, imported. Errors: UsageError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise UsageError(_cannot(module, policy, error)) from error
        raise UsageError(
            f"policy {policy!r} needs {module}, which is not installed: pip install 'doom-rollouts[{extra}]'"
        ) from error
    except (ImportError, OSError) as error:  # a shared library of it is missing
        raise UsageError(_cannot(module, policy, error)) from error


def _cannot(module: str, policy: str, error: Exception) -> str:
    return f"policy {policy!r}: {module} cannot be imported ({describe_error(error)})"
