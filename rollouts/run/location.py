"""Finds a run by what a person types: a path or URI of its folder, or its id alone under the default output."""

from __future__ import annotations

from pathlib import Path

from rollouts.config import RunConfig
from rollouts.errors import UsageError
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import open_storage


def find_run(named: str) -> RunFolder:
    """The run in the folder `named`. Errors: `UsageError` where it can be no run; what lies there is not looked at."""
    return _at_uri(named) if "://" in named else _at_path(named)


def _at_uri(named: str) -> RunFolder:
    place, _, options = named.partition("?")
    out, _, run_id = place.rstrip("/").rpartition("/")
    if run_id in ("", ".", "..") or "://" not in out or out.endswith("://"):
        raise _no_run(named)
    return RunFolder(open_storage(f"{out}?{options}" if options else out), run_id)


def _at_path(named: str) -> RunFolder:
    """A word alone is a folder here, or else an id. A link to a run keeps its name, `.` has none of its own."""
    if not named:
        raise _no_run(named)
    path = Path(named).expanduser()
    if path.name == named.rstrip("/") and path.name != ".." and not path.is_dir():
        path = RunConfig().out / path
    path = path.parent.resolve() / path.name if path.name not in ("", "..") else path.resolve()
    if not path.name:
        raise _no_run(named)
    return RunFolder(open_storage(path.parent), path.name)


def _no_run(named: str) -> UsageError:
    return UsageError(f'run "{named}": give the folder of one run, such as runs/<run id> or s3://bucket/runs/<run id>')
