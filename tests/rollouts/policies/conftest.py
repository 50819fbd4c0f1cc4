"""Frames that tell."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rollouts.records import Frame, Snapshot


@pytest.fixture
def red() -> NDArray[np.uint8]:
    """(240, 320, 3), pure red, read-only as it comes out of an object store."""
    pixels = np.zeros((240, 320, 3), np.uint8)
    pixels[..., 0] = 255
    pixels.setflags(write=False)
    return pixels


@pytest.fixture
def red_snapshot(red: NDArray[np.uint8]) -> Snapshot:
    return Snapshot(0, frame=Frame(red))
