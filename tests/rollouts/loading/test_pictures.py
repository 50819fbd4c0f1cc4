"""The fast path gives the very pixels of Pillow, and whatever is broken is told with its place."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from rollouts.errors import UsageError
from rollouts.frames import encode
from rollouts.loading.pictures import DamagedFrame, decode_planes
from rollouts.records import Frame

SOURCE = np.random.default_rng(7)
PALETTE = SOURCE.integers(0, 256, (256, 3), np.uint8)
INDICES = SOURCE.integers(0, 256, (12, 16), np.uint8)
OURS = encode(Frame(INDICES, PALETTE), "png")


def saved(image: Image.Image, fmt: str) -> bytes:
    file = io.BytesIO()
    image.save(file, fmt)
    return file.getvalue()


def nowhere(n: int) -> str:
    return f"shard, row {n}"


def test_our_pictures_have_the_pixels_that_pillow_sees() -> None:
    others = [encode(Frame(np.roll(INDICES, n), PALETTE[::-1]), "png") for n in range(3)]
    found = decode_planes([OURS, *others], nowhere)
    assert (found.dtype, found.shape, found.flags.writeable) == (np.uint8, (4, 3, 12, 16), True)
    for planes, data in zip(found, [OURS, *others], strict=True):
        with Image.open(io.BytesIO(data)) as image:
            assert image.mode == "P"
            assert np.array_equal(planes.transpose(1, 2, 0), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize(
    "data",
    [
        encode(Frame(INDICES[:, :15], PALETTE), "png"),
        encode(Frame(PALETTE[INDICES]), "png-rgb"),
        encode(Frame(PALETTE[INDICES]), "jpeg"),
        saved(Image.fromarray(INDICES % 5, "L").convert("P"), "PNG"),
        saved(Image.fromarray(PALETTE[INDICES]), "PNG"),
        saved(Image.fromarray(INDICES, "L"), "PNG"),
    ],
    ids=["odd width", "rgb", "jpeg", "few colours", "filtered", "grey"],
)
def test_any_other_picture_is_rgb_too(data: bytes) -> None:
    with Image.open(io.BytesIO(data)) as image:
        wanted = np.asarray(image.convert("RGB"))
    assert np.array_equal(decode_planes([data], nowhere)[0].transpose(1, 2, 0), wanted)


def test_ours_and_others_may_stand_side_by_side() -> None:
    rgb = encode(Frame(PALETTE[INDICES]), "png-rgb")
    one, other = decode_planes([OURS, rgb], nowhere)
    assert np.array_equal(one, other)


@pytest.mark.parametrize("length", [0, 7, 20, 100, 813, 820, len(OURS) // 2])
def test_a_picture_that_is_cut_off_is_told_with_its_place(length: int) -> None:
    with pytest.raises(DamagedFrame, match=r"^shard, row 1: the frame cannot be decoded: (?!.* at 0x)[^\n]+$"):
        decode_planes([OURS, OURS[:length]], nowhere)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_a_flipped_bit_is_told_or_changes_no_pixel() -> None:
    """One in each byte; Pillow forgives some in what is not needed."""
    right, told = decode_planes([OURS], nowhere), 0
    for at in range(len(OURS)):
        broken = bytearray(OURS)
        broken[at] ^= 1 << at % 8
        try:
            assert np.array_equal(decode_planes([bytes(broken)], nowhere), right), at
        except DamagedFrame:
            told += 1
    assert told > 0.9 * len(OURS)


def test_sizes_that_differ_and_frames_that_are_missing_are_told() -> None:
    small = encode(Frame(INDICES[:6, :8], PALETTE), "png")
    with pytest.raises(UsageError, match=r"frames of 16×12 and of 8×6 pixels in one batch"):
        decode_planes([OURS, small], nowhere)
    with pytest.raises(UsageError, match=r"shard, row 1 has no frame"):
        decode_planes([OURS, None], nowhere)
    assert decode_planes([], nowhere).shape[0] == 0
