"""What networks see of frames: the crop, the size, and where nothing changes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rollouts.policies.base import Question
from rollouts.policies.network_inputs import NATIVE, Frames
from rollouts.records import Frame, Snapshot

RED, BLUE = (255, 0, 0), (0, 0, 255)


def red_in_blue(top: int, bottom: int, left: int, right: int) -> NDArray[np.uint8]:
    pixels = np.full((*NATIVE, 3), BLUE, np.uint8)
    pixels[top:bottom, left:right] = RED
    return pixels


def see(looks: Frames, frame: Frame) -> NDArray[np.uint8]:
    (seen,) = looks.see([Question(Snapshot(0, frame=frame), "", ("a", "b"), None)])
    return seen


@pytest.mark.parametrize("size", [None, (20, 160), (40, 100)])
def test_nothing_outside_the_crop_is_seen(size: tuple[int, int] | None) -> None:
    """Not at its edges either, where a resized picture mixes neighbours."""
    looks = Frames(size, crop=(80, 120, 10, 310))
    seen = see(looks, Frame(red_in_blue(80, 120, 10, 310)))
    assert seen.shape == (3, *(size or (40, 300)))
    assert np.array_equal(np.unique(seen.reshape(3, -1), axis=1).T, [RED])
    assert looks.blank(2).shape == (2, *seen.shape)


def test_a_crop_is_those_very_pixels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*NATIVE, 3)).astype(np.uint8)
    seen = see(Frames(crop=(7, 11, 20, 25)), Frame(pixels))
    assert np.array_equal(seen.transpose(1, 2, 0), pixels[7:11, 20:25])


@pytest.mark.parametrize("looks", [Frames(crop=(7, 11, 20, 25)), Frames((30, 40), (0, 120, 0, 320)), Frames((30, 40))])
def test_a_palette_frame_is_seen_as_its_rgb(looks: Frames) -> None:
    rng = np.random.default_rng(0)
    palette, indices = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((256, 3), NATIVE))
    assert np.array_equal(see(looks, Frame(indices, palette)), see(looks, Frame(palette[indices])))


@pytest.mark.parametrize("looks", [Frames((20, 160), (80, 120, 0, 320)), Frames(crop=(80, 120, 0, 320)), Frames()])
def test_what_was_seen_is_seen_as_it_is(looks: Frames) -> None:
    """A policy server is sent what its asker has cut already."""
    frame = Frame(np.random.default_rng(0).integers(0, 256, (*NATIVE, 3)).astype(np.uint8))
    once = looks.fit(frame)
    assert looks.fit(once) is once
    assert np.array_equal(see(looks, once), see(looks, frame))


def test_a_crop_beyond_the_frame() -> None:
    small = Frame(np.zeros((120, 160, 3), np.uint8))
    with pytest.raises(ValueError, match=r"a frame of 120 x 160 pixels does not hold the crop \[80, 160, 0, 160\]"):
        Frames((40, 80), crop=(80, 160, 0, 160)).fit(small)
