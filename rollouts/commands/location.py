"""Finds a run by what a person types: a path or URI of its folder, or its id alone under the default output."""

from __future__ import annotations

from pathlib import Path

from rollouts.config import RunConfig
from rollouts.errors import UsageError
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import open_storage


def find_run(named: str) -> RunFolder:
    """The run in the folder `named`. Errors: `UsageError` where the name is empty; what lies there is not looked at."""
    place, _, options = named.partition("?") if "://" in named else (named, "", "")
    out, _, run_id = place.rstrip("/").rpartition("/")
    if not run_id or run_id in (".", "..") or out.endswith(":/"):
        raise UsageError(
            f'run "{named}": give the folder of one run, such as runs/<run id> or s3://bucket/runs/<run id>'
        )
    if not out:
        out = "/" if place.startswith("/") else "." if Path(run_id).is_dir() else RunConfig().out
    return RunFolder(open_storage(f"{out}?{options}" if options else out), run_id)
