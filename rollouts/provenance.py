"""Where the code that runs comes from: source revision and package versions. Asks git, changes nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "doom-rollouts",
    "vizdoom",
    "ray",
    "numpy",
    "pyarrow",
    "pillow",
    "isal",
    "xxhash",
    "cyclopts",
    "rich",
    "psutil",
)
GIT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class SourceRevision:
    """The commit of this code and whether the tree differed from it (also by new files); None outside a checkout."""

    revision: str | None
    dirty: bool | None


def source_revision(code: Path = Path(__file__)) -> SourceRevision:
    """The revision of the checkout that tracks the file `code`.

    Code that was installed, even into a folder inside some checkout, is tracked by none.
    """
    code = code.resolve()
    tracked = _git(code.parent, "ls-files", "--error-unmatch", code.name)
    revision = _git(code.parent, "rev-parse", "HEAD") if tracked else None
    status = _git(code.parent, "status", "--porcelain", "--ignore-submodules=none") if revision else None
    return SourceRevision(revision, None if status is None else bool(status))


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says, None where it fails, is missing or takes too long. No variable of an outer git reaches it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_OPTIONAL_LOCKS": "0"}
    command = ("git", "-C", str(folder), *arguments)
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def package_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str | None]:
    """Python's and each distribution's version; None for what is not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in packages}}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
