"""How the whole suite is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_SLOW_FILE = re.compile(r"^pytestmark = .*pytest\.mark\.slow", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only quick tests are asked for, files of slow ones are not imported: many import torch, Ray or moto."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return True if _SLOW_FILE.search(collection_path.read_text()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that two workers end at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
