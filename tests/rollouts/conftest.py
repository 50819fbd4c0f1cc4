"""What commands that run in processes of their own must keep to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console import left_over, lost_memory, newly_lost_memory


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """No process of the commands, and no engine's shared memory."""
    memory = lost_memory()
    yield
    assert left_over() == []
    assert newly_lost_memory(memory) == set()
