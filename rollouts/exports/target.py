"""Where an export goes: a folder that is there whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rollouts.errors import StorageError, UsageError
from rollouts.store.storage_faults import cause


def check_target(out: Path) -> None:
    """Errors: `UsageError` where `out` is a URI, is there already, or its folder cannot be written to."""
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(out)):  # a path has no double slash
        raise UsageError(f"--out {out} is a URI: an export is written to a folder of this machine, copy it from there")
    if out.exists() or out.is_symlink():
        raise UsageError(f"--out {out} is there already: an export is never written over anything, name a new folder")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to --out {out}: no folder can be made in {above}")


@contextmanager
def fresh_folder(out: Path) -> Iterator[Path]:
    """An empty folder beside `out` that gets its name when the block ends well; else nothing of it stays.

    After SIGKILL a folder `.<name>.tmp-…` is left. Errors: `StorageError` where the disk fails.
    """
    temporary = out.with_name(f".{out.name}.tmp-{os.urandom(4).hex()}")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.rename(out)
    except OSError as error:
        raise StorageError(f"cannot write {out}: {cause(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
