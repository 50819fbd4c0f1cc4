"""What a network sees: frames or words as arrays, a row a decision."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rollouts.policies.base import Question

Observes = Literal["frame", "text"]
Size = tuple[int, int]
NATIVE: Size = (240, 320)
_WORD = re.compile(r"\w+|[^\w\s]")


class Inputs(Protocol):
    """From decisions to arrays."""

    @property
    def observes(self) -> Observes: ...

    @property
    def frame_size(self) -> Size | None:
        """(height, width) that frames are made; None for no frames, or as they are."""
        ...

    def see(self, questions: Sequence[Question]) -> NDArray[np.generic]:
        """A fresh, writable array whose first axis is the decision. Errors: ValueError."""
        ...

    def blank(self, n: int) -> NDArray[np.generic]:
        """Zeros of the same shape and type, for a try."""
        ...


@dataclass(frozen=True)
class Frames:
    """(n, 3, height, width) uint8, RGB."""

    frame_size: Size | None = None
    observes: Observes = "frame"

    def see(self, questions: Sequence[Question]) -> NDArray[np.uint8]:
        pictures = [resized(_rgb(question), self.frame_size) for question in questions]
        return np.ascontiguousarray(np.stack(pictures).transpose(0, 3, 1, 2))

    def blank(self, n: int) -> NDArray[np.uint8]:
        return np.zeros((n, 3, *(self.frame_size or NATIVE)), np.uint8)


@dataclass(frozen=True)
class Words:
    """(n, length) int64: words and signs hashed to 1 … buckets - 1; 0 fills up. What is longer is cut."""

    buckets: int
    length: int
    observes: Observes = "text"
    frame_size: Size | None = None

    def see(self, questions: Sequence[Question]) -> NDArray[np.int64]:
        tokens = self.blank(len(questions))
        for row, question in zip(tokens, questions, strict=True):
            words = _WORD.findall(question.text.lower())[: self.length]
            row[: len(words)] = [1 + zlib.crc32(word.encode()) % (self.buckets - 1) for word in words]
        return tokens

    def blank(self, n: int) -> NDArray[np.int64]:
        return np.zeros((n, self.length), np.int64)


def resized(pixels: NDArray[np.uint8], size: Size | None) -> NDArray[np.uint8]:
    """(H, W, 3) to (height, width, 3), bilinear with antialiasing; the very array where nothing changes."""
    if size is None or pixels.shape[:2] == size:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BILINEAR))


def _rgb(question: Question) -> NDArray[np.uint8]:
    frame = question.snapshot.frame
    if frame is None:
        raise ValueError("there is no frame to look at")
    return frame.rgb()
