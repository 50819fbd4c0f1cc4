"""A Ray of the tests' own: no token (tests start nodes and drivers beside it), a short folder, no dashboard."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"


@pytest.fixture(scope="session")
def ray_dir() -> Iterator[str]:
    """Short: Ray's sockets have long names."""
    path = tempfile.mkdtemp(prefix="r", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)
