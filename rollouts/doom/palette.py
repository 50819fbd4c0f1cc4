"""The colours behind palette indices: learnt from the engine's own frames, completed from the game's files.

An index frame stands for its RGB frame only if each index has one colour, and only a palette that is known whole can
colour the frames still to come. Where either fails there is no palette. Does not import the engine.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

COLOURS = 256
_LUMP = b"PLAYPAL\0"
_UNSEEN = -1


def learn_palette(
    indices: Sequence[NDArray[np.uint8]], colours: Sequence[NDArray[np.uint8]], wads: Iterable[Path]
) -> NDArray[np.uint8] | None:
    """A read-only (256, 3) palette under which each (H, W) index frame is its (H, W, 3) RGB frame, or None.

    `wads` in the order in which the engine prefers them; the first with a palette completes the unseen indices.
    """
    seen = _observe(indices, colours)
    base = next((found for found in map(read_palette, wads) if found is not None), None)
    if seen is None or base is None:
        return None
    known = seen != _UNSEEN
    if not np.array_equal(_pack(base)[known], seen[known]):
        return None
    base.setflags(write=False)
    return base


def _observe(indices: Sequence[NDArray[np.uint8]], colours: Sequence[NDArray[np.uint8]]) -> NDArray[np.int64] | None:
    """Packed colour of each index, -1 where it was not seen; None when an index has two colours."""
    seen = np.full(COLOURS, _UNSEEN, np.int64)
    for index_frame, rgb_frame in zip(indices, colours, strict=True):
        flat, packed = index_frame.ravel(), _pack(rgb_frame.reshape(-1, 3))
        known = seen[flat]
        if np.any((known != _UNSEEN) & (known != packed)):
            return None
        seen[flat] = packed
        if np.any(seen[flat] != packed):
            return None
    return seen


def _pack(rgb: NDArray[np.uint8]) -> NDArray[np.int64]:
    wide = rgb.astype(np.int64)
    packed: NDArray[np.int64] = (wide[:, 0] << 16) | (wide[:, 1] << 8) | wide[:, 2]
    return packed


def read_palette(wad: Path) -> NDArray[np.uint8] | None:
    """The first (the normal) palette of a wad's PLAYPAL lump, (256, 3); None when it has none.

    Format: 12 bytes of header (magic, lumps, directory offset), a directory entry is offset, size, name (8 bytes).
    """
    with wad.open("rb") as file:
        _, lumps, directory = struct.unpack("<4sii", file.read(12))
        file.seek(directory)
        entries = struct.iter_unpack("<ii8s", file.read(16 * lumps))
        start = next((offset for offset, _, name in reversed(list(entries)) if name == _LUMP), None)
        if start is None:
            return None
        file.seek(start)
        return np.frombuffer(file.read(3 * COLOURS), np.uint8).reshape(COLOURS, 3).copy()
