import io
import pickle
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from rollouts.frames import FRAME_FORMATS, FrameFormat, decode, encode, frame_path
from rollouts.records import Frame

RNG = np.random.default_rng(11)
PALETTE = RNG.integers(0, 256, (256, 3), dtype=np.uint8)
INDEXED = Frame(RNG.integers(0, 256, (24, 31), dtype=np.uint8), PALETTE)
RGB = Frame(RNG.integers(0, 256, (24, 31, 3), dtype=np.uint8))


def pillow(data: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("frame", [INDEXED, RGB], ids=["indexed", "rgb"])
@pytest.mark.parametrize("fmt", ["png", "png-rgb"])
def test_a_png_holds_the_very_pixels_for_others_and_for_us(frame: Frame, fmt: FrameFormat) -> None:
    data = encode(frame, fmt)
    assert np.array_equal(pillow(data), frame.rgb())
    assert np.array_equal(decode(data), frame.rgb())


def test_modes_and_sizes() -> None:
    opened = {fmt: Image.open(io.BytesIO(encode(INDEXED, fmt))) for fmt in FRAME_FORMATS if fmt != "none"}
    assert {fmt: image.mode for fmt, image in opened.items()} == {"png": "P", "png-rgb": "RGB", "jpeg": "RGB"}
    assert {image.size for image in opened.values()} == {(31, 24)}


def test_without_a_palette_png_falls_back_to_rgb() -> None:
    assert Image.open(io.BytesIO(encode(RGB, "png"))).mode == "RGB"


def test_a_png_is_four_sound_chunks() -> None:
    data = encode(INDEXED, "png")
    names = [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    assert all(data.index(a) < data.index(b) for a, b in pairwise(names))
    with Image.open(io.BytesIO(data)) as image:
        image.verify()  # checks every CRC


def test_pictures_of_others_are_decoded_too() -> None:
    filtered, grey = io.BytesIO(), io.BytesIO()
    Image.fromarray(RGB.pixels).save(filtered, "PNG")
    Image.fromarray(INDEXED.pixels).save(grey, "PNG")
    few = Image.fromarray(INDEXED.pixels % 4, "L").convert("P")
    few_colours = io.BytesIO()
    few.save(few_colours, "PNG")
    assert np.array_equal(decode(filtered.getvalue()), RGB.pixels)
    assert np.array_equal(decode(grey.getvalue()), np.stack([INDEXED.pixels] * 3, axis=2))
    assert np.array_equal(decode(few_colours.getvalue()), np.asarray(few.convert("RGB")))


def test_jpeg_is_near() -> None:
    smooth = Frame(np.repeat(np.arange(240, dtype=np.uint8)[:, None, None], 3, axis=2).repeat(64, axis=1))
    assert np.abs(decode(encode(smooth, "jpeg")).astype(int) - smooth.pixels).max() <= 3


def test_none_is_not_a_picture() -> None:
    with pytest.raises(ValueError, match="none"):
        encode(RGB, "none")


def test_paths() -> None:
    assert frame_path("a.rule.oracle.1.0", 7) == "frames/a.rule.oracle.1.0_0007.png"
    assert frame_path("a.rule.oracle.1.0", 12345, "jpeg") == "frames/a.rule.oracle.1.0_12345.jpg"


@pytest.mark.parametrize("fmt", ["png", "png-rgb", "jpeg"])
def test_decoded_frames_may_be_written_and_the_stored_ones_stay(fmt: FrameFormat) -> None:
    data = encode(INDEXED, fmt)
    before = decode(data).copy()
    mine = decode(data)
    mine //= 2
    assert np.array_equal(decode(data), before)


def test_rgb_of_a_read_only_frame_is_a_writable_copy() -> None:
    pixels = INDEXED.pixels.copy()
    pixels.setflags(write=False)
    frame: Frame = pickle.loads(pickle.dumps(Frame(pixels, PALETTE), protocol=5))
    mine = frame.rgb()
    mine[:] = 0
    assert np.array_equal(frame.pixels, INDEXED.pixels)
    with pytest.raises(ValueError, match="read-only"):
        pixels[0, 0] = 1
