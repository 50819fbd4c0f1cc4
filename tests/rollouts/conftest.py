"""What commands that run in processes of their own must keep to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console import is_marked, left_over
from tests.engine_memory import EngineMemory


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    """Of the commands. Who is killed while its engine starts leaves its memory to a later command's sweep."""
    yield
    assert left_over() == []


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """No process of the commands, and no engine's shared memory."""
    with EngineMemory(is_marked) as memory:
        yield
        assert left_over() == []
        assert memory.lost() == set()
