"""Lines to a policy server: what goes through, and what happens where the other end is gone."""

from __future__ import annotations

import asyncio
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import numpy as np
import pytest

from rollouts.errors import PolicyError
from rollouts.policies.base import Question
from rollouts.policies.batching import Outcome
from rollouts.policies.socket_line import SocketDoor, SocketLine
from rollouts.records import Answer, Frame, Snapshot


async def ask(name: str, who: str, question: Question) -> Outcome:
    """Says what it heard; `hang` never answers."""
    if question.text == "hang":
        await asyncio.sleep(3600)
    if question.text == "wrong":
        return PolicyError("ValueError: wrong")
    frame = question.snapshot.frame
    return Answer(f"{name} {who} {question.text}", raw_reply=None if frame is None else str(int(frame.pixels.sum())))


@pytest.fixture
def door() -> Iterator[str]:
    """The path to a door that is open in an event loop of another thread."""
    told: Queue[str] = Queue()
    over = threading.Event()

    async def main() -> None:
        opened = SocketDoor(ask)
        told.put(await opened.open())
        await asyncio.to_thread(over.wait)
        await opened.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    path = told.get(timeout=10)
    yield path
    over.set()
    thread.join(10)
    assert not Path(path).exists()


def question(text: str, frame: Frame | None = None) -> Question:
    return Question(Snapshot(0, frame=frame), text, ("a", "b"), None)


def test_what_goes_through(door: str) -> None:
    """A frame larger than any buffer on the way, too."""
    line = SocketLine(door, 10.0)
    frame = Frame(np.full((1000, 1000, 3), 2, np.uint8))
    assert line.ask("policy", "me", question("hello", frame)) == Answer("policy me hello", raw_reply="6000000")
    outcome = line.ask("policy", "me", question("wrong"))
    assert isinstance(outcome, PolicyError)
    assert str(outcome) == "ValueError: wrong"
    line.close()


def test_many_lines_at_once(door: str) -> None:
    def talk(who: int) -> list[str | None]:
        line = SocketLine(door, 10.0)
        said = [line.ask("p", str(who), question(str(n))) for n in range(20)]
        line.close()
        return [outcome.choice for outcome in said if isinstance(outcome, Answer)]

    with ThreadPoolExecutor(16) as pool:
        for who, said in enumerate(pool.map(talk, range(16))):
            assert said == [f"p {who} {n}" for n in range(20)]


def test_only_our_user_can_enter(door: str) -> None:
    assert stat.S_IMODE(Path(door).parent.stat().st_mode) == 0o700


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SocketLine(str(tmp_path / "door"), 1.0)


def test_no_answer_in_time(door: str) -> None:
    line = SocketLine(door, 0.2)
    with pytest.raises(TimeoutError):
        line.ask("p", "me", question("hang"))
    line.close()


def test_the_other_end_goes_away_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "door")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        line = SocketLine(path, 10.0)
        other, _ = server.accept()
        other.sendall(b"\x00\x00\x00\x09abc")
        other.close()
        with pytest.raises(OSError, match=r"went away|Broken pipe|reset"):
            line.ask("p", "me", question("hello"))
        line.close()
