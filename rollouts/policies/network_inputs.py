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
from rollouts.records import Frame

Observes = Literal["frame", "text"]
Size = tuple[int, int]
Crop = tuple[int, int, int, int]
NATIVE: Size = (240, 320)
_WORD = re.compile(r"\w+|[^\w\s]")


class Inputs(Protocol):
    """From decisions to arrays."""

    @property
    def observes(self) -> Observes: ...

    def see(self, questions: Sequence[Question]) -> NDArray[np.generic]:
        """A fresh, writable array whose first axis is the decision. Errors: ValueError."""
        ...

    def blank(self, n: int) -> NDArray[np.generic]:
        """Zeros of the same shape and type, for a try."""
        ...


@dataclass(frozen=True)
class Frames:
    """(n, 3, height, width) uint8, RGB: the part `crop` of each frame, made `frame_size`.

    `crop` is (top, bottom, left, right) in the frame's own pixels, bottom and right left out, None for all of it;
    `frame_size` is (height, width), None for as it is.
    """

    frame_size: Size | None = None
    crop: Crop | None = None
    observes: Observes = "frame"

    @property
    def size(self) -> Size | None:
        """(height, width) of what is seen; None where that is the frame's own."""
        if self.frame_size is not None or self.crop is None:
            return self.frame_size
        top, bottom, left, right = self.crop
        return bottom - top, right - left

    def see(self, questions: Sequence[Question]) -> NDArray[np.uint8]:
        pictures = [self.fit(_frame(question)).rgb() for question in questions]
        return np.ascontiguousarray(np.stack(pictures).transpose(0, 3, 1, 2))

    def blank(self, n: int) -> NDArray[np.uint8]:
        return np.zeros((n, 3, *(self.size or NATIVE)), np.uint8)

    def fit(self, frame: Frame) -> Frame:
        """What is seen of `frame`: cut, then resized, bilinear with antialiasing. One that has `size` already is taken
        for seen, and comes back as it is.

        Errors: ValueError where `crop` is not inside the frame.
        """
        if self.size in (None, frame.pixels.shape[:2]):
            return frame
        pixels = _cut(frame, self.crop).rgb()
        if pixels.shape[:2] == self.size:
            return Frame(pixels)
        assert self.size is not None
        return Frame(np.asarray(Image.fromarray(pixels).resize(self.size[::-1], Image.Resampling.BILINEAR)))


@dataclass(frozen=True)
class Words:
    """(n, length) int64: words and signs hashed to 1 … buckets - 1; 0 fills up. What is longer is cut."""

    buckets: int
    length: int
    observes: Observes = "text"

    def see(self, questions: Sequence[Question]) -> NDArray[np.int64]:
        return self.numbers([question.text for question in questions])

    def numbers(self, texts: Sequence[str]) -> NDArray[np.int64]:
        tokens = self.blank(len(texts))
        for row, text in zip(tokens, texts, strict=True):
            words = _WORD.findall(text.lower())[: self.length]
            row[: len(words)] = [1 + zlib.crc32(word.encode()) % (self.buckets - 1) for word in words]
        return tokens

    def blank(self, n: int) -> NDArray[np.int64]:
        return np.zeros((n, self.length), np.int64)


def _cut(frame: Frame, crop: Crop | None) -> Frame:
    if crop is None:
        return frame
    top, bottom, left, right = crop
    height, width = frame.pixels.shape[:2]
    if bottom > height or right > width:
        raise ValueError(f"a frame of {height} x {width} pixels does not hold the crop {list(crop)}")
    return Frame(frame.pixels[top:bottom, left:right], frame.palette)


def _frame(question: Question) -> Frame:
    frame = question.snapshot.frame
    if frame is None:
        raise ValueError("there is no frame to look at")
    return frame
