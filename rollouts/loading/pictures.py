"""Pictures of many rows to pixels, fast: our own palette PNGs are inflated and looked up plane by plane.

Any other picture (JPEG, RGB, filtered PNG) goes through `rollouts.frames.decode`; the pixels are RGB in any case.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from rollouts.errors import StorageError, UsageError
from rollouts.frames import decode

Pixels = NDArray[np.uint8]
Locate = Callable[[int], str]
"""Where the n-th picture is from, in words: shard and row."""
_PNG = b"\x89PNG\r\n\x1a\n"
_HEADER, _PALETTE, _BODY = 8, 33, 813  # where the chunks IHDR, PLTE (256 colours) and IDAT begin in our own pictures
_AROUND = 12  # of a chunk, beside its body: size, name, checksum
_PACKED_WRONG: tuple[type[Exception], ...] = (zlib.error, isal_zlib.error)
_DAMAGES = (OSError, ValueError, SyntaxError, EOFError, IndexError, struct.error, *_PACKED_WRONG)
"""What the decoders raise over bytes that are no picture, or a broken one."""


class DamagedFrame(StorageError):
    """A frame that cannot be decoded; the message names shard and row."""


def decode_planes(pictures: Sequence[bytes | None], locate: Locate) -> Pixels:
    """(n, 3, H, W) uint8, RGB. Errors: `DamagedFrame`; `UsageError` where a frame is missing, or sizes differ."""
    planes: Pixels | None = None
    for n, data in enumerate(pictures):
        if data is None:
            raise UsageError(f"{locate(n)} has no frame (played with --frames none?): ask for other columns")
        try:
            planes = np.empty((len(pictures), *_shape(data)), np.uint8) if planes is None else planes
            _decode_into(data, planes[n])
        except _DAMAGES as error:
            told = " ".join(str(error).split()) or type(error).__name__
            raise DamagedFrame(f"{locate(n)}: the frame cannot be decoded: {told}") from error
    return np.empty((0, 3, 0, 0), np.uint8) if planes is None else planes


@dataclass(frozen=True, slots=True)
class _Layout:
    """What comes before the pixels of a palette picture of ours. `planes` are its reds, greens and blues, 256 each."""

    height: int
    width: int
    planes: tuple[bytes, bytes, bytes]


def _decode(data: bytes) -> Pixels:
    return np.moveaxis(decode(data), 2, 0)


def _shape(data: bytes) -> tuple[int, ...]:
    layout = _layout(data[:_BODY])
    return (3, layout.height, layout.width) if layout else _decode(data).shape


def _decode_into(data: bytes, out: Pixels) -> None:
    """Fill (3, H, W). Errors: `_DAMAGES`."""
    layout, body = _layout(data[:_BODY]), memoryview(data)[_BODY:]
    if layout is not None and (packed := _only_chunk(body)) is not None:
        rows = isal_zlib.decompress(packed, bufsize=layout.height * (layout.width + 1))
        if len(rows) == layout.height * (layout.width + 1) and not any(rows[:: layout.width + 1]):  # no row filter
            _check_size(out, (3, layout.height, layout.width))
            for plane, table in zip(out, layout.planes, strict=True):
                looked_up = np.frombuffer(rows.translate(table), np.uint8)
                plane[:] = looked_up.reshape(layout.height, layout.width + 1)[:, 1:]
            return
    pixels = _decode(data)
    _check_size(out, pixels.shape)
    out[:] = pixels


@lru_cache(maxsize=64)
def _layout(head: bytes) -> _Layout | None:
    """From the first bytes of a picture, the same in all pictures of a scenario; None where they are not like ours."""
    if len(head) != _BODY or not head.startswith(_PNG) or head[12:16] != b"IHDR" or head[37:41] != b"PLTE":
        return None
    whole = (_checked(head[_HEADER:_PALETTE]), _checked(head[_PALETTE:_BODY]))
    width, height, *kind = struct.unpack(">IIBBBBB", head[16:29])
    if not all(whole) or kind != [8, 3, 0, 0, 0]:
        return None
    colours = head[41:809]
    return _Layout(height, width, (colours[0::3], colours[1::3], colours[2::3]))


def _checked(chunk: bytes) -> bool:
    """Is its checksum right?"""
    return isal_zlib.crc32(chunk[4:-4]) == int.from_bytes(chunk[-4:], "big")


def _only_chunk(body: memoryview) -> memoryview | None:
    """The compressed pixels, where they are one chunk with only the end after it."""
    size = int.from_bytes(body[:4], "big")
    if len(body) != size + 2 * _AROUND or bytes(body[4:8]) != b"IDAT":
        return None
    return body[8 : 8 + size]


def _check_size(out: Pixels, shape: tuple[int, ...]) -> None:
    if out.shape != shape:
        one, other = ("×".join(map(str, size[:0:-1])) for size in (shape, out.shape))
        raise UsageError(f"frames of {other} and of {one} pixels in one batch: choose a scenario, or batch_size=None")
