"""Pictures of many rows to pixels, fast: our own palette PNGs are inflated and looked up plane by plane.

Any other picture (JPEG, RGB, filtered PNG) goes through `rollouts.frames.decode`; the pixels are RGB in any case.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

import numpy as np
from isal import isal_zlib
from isal.igzip_lib import IsalError
from numpy.typing import NDArray
from PIL import UnidentifiedImageError

from rollouts.errors import StorageError, UsageError
from rollouts.frames import decode

T = TypeVar("T")
Pixels = NDArray[np.uint8]
Stored = bytes | memoryview
Locate = Callable[[int], str]
"""Where the n-th picture is from, in words: shard and row."""
_PNG = b"\x89PNG\r\n\x1a\n"
_HEADER, _PALETTE, _BODY = 8, 33, 813  # where the chunks IHDR, PLTE (256 colours) and IDAT begin in our own pictures
_AROUND = 12  # of a chunk, beside its body: size, name, checksum
_DAMAGES = (OSError, ValueError, SyntaxError, EOFError, IndexError, struct.error, zlib.error, IsalError)
"""What the decoders raise over bytes that are no picture, or a broken one."""


class DamagedFrame(StorageError):
    """A frame that cannot be decoded; the message names shard and row."""


def planes_shape(pictures: Sequence[Stored | None], locate: Locate) -> tuple[int, ...]:
    """(n, 3, H, W), H and W those of the first picture. Errors: `DamagedFrame`; `UsageError` where it is missing."""
    return (len(pictures), *(_told(_shape, pictures[0], locate, 0) if pictures else (3, 0, 0)))


def decode_planes(pictures: Sequence[Stored | None], locate: Locate, out: Pixels | None = None) -> Pixels:
    """RGB, into `out` (n, 3, H, W), fresh where that is None.

    Errors: `DamagedFrame`; `UsageError` where a frame is missing, or sizes differ.
    """
    planes = np.empty(planes_shape(pictures, locate), np.uint8) if out is None else out
    for n, data in enumerate(pictures):
        _told(partial(_decode_into, planes[n]), data, locate, n)
    return planes


def _told(look: Callable[[Stored], T], data: Stored | None, locate: Locate, n: int) -> T:
    """What `look` makes of the n-th picture; its errors say which it was."""
    if data is None:
        raise UsageError(f"{locate(n)} has no frame (played with --frames none?): ask for other columns")
    try:
        return look(data)
    except _DAMAGES as error:  # type: ignore[misc]  # isal types its error as a value
        said = "it is no picture" if isinstance(error, UnidentifiedImageError) else str(error)
        told = " ".join(said.split()) or type(error).__name__
        raise DamagedFrame(f"{locate(n)}: the frame cannot be decoded: {told}") from error


@dataclass(frozen=True, slots=True)
class _Layout:
    """What comes before the pixels of a palette picture of ours. `pairs` (3, 65536) uint16: for two neighbours, as one
    number, their reds, greens and blues, as one number too; in pairs the look-up takes three quarters of the time."""

    height: int
    width: int
    pairs: NDArray[np.uint16]


def _decode(data: Stored) -> Pixels:
    return np.moveaxis(decode(bytes(data)), 2, 0)


def _shape(data: Stored) -> tuple[int, ...]:
    layout = _layout(bytes(data[:_BODY]))
    return (3, layout.height, layout.width) if layout else _decode(data).shape


def _decode_into(out: Pixels, data: Stored) -> None:
    """Fill (3, H, W). Errors: `_DAMAGES`, `UsageError`."""
    layout = _layout(bytes(data[:_BODY]))
    indices = _indices(data, layout) if layout else None
    if layout is None or indices is None:
        pixels = _decode(data)
        _check_size(out, pixels.shape)
        out[:] = pixels
        return
    _check_size(out, (3, layout.height, layout.width))
    for plane, pairs in zip(out.view(np.uint16), layout.pairs, strict=True):
        pairs.take(indices, out=plane, mode="clip")  # nothing to clip; "raise" would take a copy


def _indices(data: Stored, layout: _Layout) -> NDArray[np.intp] | None:
    """(H, W / 2): two neighbours' palette indices as one number; None where the rows are filtered, or in pieces."""
    packed = memoryview(data)[_BODY:]
    size = int.from_bytes(packed[:4], "big")
    if len(packed) != size + 2 * _AROUND or bytes(packed[4:8]) != b"IDAT":
        return None
    shape = (layout.height, 1 + layout.width)
    rows = np.frombuffer(isal_zlib.decompress(packed[8 : 8 + size], bufsize=shape[0] * shape[1]), np.uint8)
    if rows.size != shape[0] * shape[1] or rows[:: shape[1]].any():
        return None
    return rows.reshape(shape)[:, 1:].view(np.uint16).astype(np.intp)


@lru_cache(maxsize=16)
def _layout(head: bytes) -> _Layout | None:
    """From the first bytes of a picture, the same in all pictures of a scenario; None where they are not like ours."""
    if len(head) != _BODY or not head.startswith(_PNG) or head[12:16] != b"IHDR" or head[37:41] != b"PLTE":
        return None
    width, height, *kind = struct.unpack(">IIBBBBB", head[16:29])
    whole = _checked(head[_HEADER:_PALETTE]) and _checked(head[_PALETTE:_BODY])
    if not whole or kind != [8, 3, 0, 0, 0] or width % 2:
        return None
    colours = np.frombuffer(head[41:809], np.uint8).reshape(256, 3).T
    pairs = np.stack(np.broadcast_arrays(colours[:, None, :], colours[:, :, None]), -1)
    return _Layout(height, width, np.ascontiguousarray(pairs).view(np.uint16).reshape(3, -1))


def _checked(chunk: bytes) -> bool:
    """Is its checksum right?"""
    return isal_zlib.crc32(chunk[4:-4]) == int.from_bytes(chunk[-4:], "big")


def _check_size(out: Pixels, shape: tuple[int, ...]) -> None:
    if out.shape != shape:
        one, other = ("×".join(map(str, size[:0:-1])) for size in (shape, out.shape))
        raise UsageError(f"frames of {other} and of {one} pixels in one batch: choose a scenario, or batch_size=None")
