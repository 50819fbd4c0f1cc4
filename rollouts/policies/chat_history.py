"""What a model is reminded of: the last exchanges of the episode, never more, the last pictures among them.

An exchange is what the model was shown and the option it chose, in the form it was asked for. What else it wrote, such
as an observation that it made up, is not kept; an exchange without a valid choice is not kept at all.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rollouts.calls.chat_records import ChatMessage, Role


@dataclass(frozen=True, slots=True)
class Picture:
    """A frame as a file, and the path by which its row knows it."""

    file: bytes
    path: str

    @property
    def url(self) -> str:
        kind = "jpeg" if self.path.endswith(".jpg") else "png"
        return f"data:image/{kind};base64,{base64.b64encode(self.file).decode()}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that is said, with a picture after the words where there is one."""

    role: Role
    text: str
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was shown, and what was answered."""

    shown: Turn
    answer: str


class ChatHistory:
    """Keeps `exchanges`, and the pictures of the last `pictures` of them; `left_out` is said in place of the others.

    The limits may only shrink: what an endpoint has once refused as too much is not sent again.
    """

    def __init__(self, exchanges: int, pictures: int, left_out: str) -> None:
        self._most = exchanges
        self._most_pictures = min(pictures, exchanges)
        self._left_out = left_out
        self._kept: deque[Exchange] = deque(maxlen=exchanges)

    def clear(self) -> None:
        """Another episode begins."""
        self._kept.clear()

    def add(self, exchange: Exchange) -> None:
        self._kept.append(exchange)
        while len(self._kept) > self._most:
            self._kept.popleft()

    def turns(self) -> list[Turn]:
        """What is sent before the present moment, oldest first."""
        turns: list[Turn] = []
        for age, exchange in zip(range(len(self._kept), 0, -1), self._kept, strict=True):
            turns.append(exchange.shown if age <= self._most_pictures else self._without_picture(exchange.shown))
            turns.append(Turn("assistant", exchange.answer))
        return turns

    def forget_half(self) -> bool:
        """Keep half of the exchanges from now on; False where none is left to forget."""
        if not self._kept:
            return False
        self._most = len(self._kept) // 2
        self._most_pictures = min(self._most_pictures, self._most)
        while len(self._kept) > self._most:
            self._kept.popleft()
        return True

    def show_fewer(self, most: int | None) -> bool:
        """Keep `most` pictures (None: none) from now on; False where that is no fewer than what was sent."""
        sent = min(self._most_pictures, len(self._kept))
        most = 0 if most is None or most >= sent else max(0, most)
        self._most_pictures = min(self._most_pictures, most)
        return sent > most

    def _without_picture(self, turn: Turn) -> Turn:
        if turn.picture is None:
            return turn
        return replace(turn, text=f"{turn.text}\n{self._left_out}", picture=None)


def as_messages(turns: Sequence[Turn]) -> tuple[ChatMessage, ...]:
    """What is sent."""
    return tuple(ChatMessage(turn.role, turn.text, (turn.picture.url,) if turn.picture else ()) for turn in turns)


def as_json(turns: Iterable[Turn]) -> str:
    """The messages as they were sent, for the row; a picture's URL is the path of its row's frame, not base64."""
    return json.dumps([_plain(turn) for turn in turns], ensure_ascii=False)


def _plain(turn: Turn) -> dict[str, object]:
    if turn.picture is None:
        return {"role": turn.role, "content": turn.text}
    picture = {"type": "image_url", "image_url": {"url": turn.picture.path}}
    return {"role": turn.role, "content": [{"type": "text", "text": turn.text}, picture]}
