"""Lines to a policy server: what goes through, and what happens where the other end is gone."""

from __future__ import annotations

import asyncio
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import Queue

import pytest

from rollouts.errors import RunStopped
from rollouts.policies.server_messages import read_outcome
from rollouts.policies.socket_line import MOST_BYTES, SocketDoor, SocketLine


async def reply(message: bytes) -> bytes:
    """Says what it heard, backwards; `hang` never answers, `much` is answered with too much."""
    if message == b"hang":
        await asyncio.sleep(3600)
    return b"\0" * (MOST_BYTES + 1) if message == b"much" else message[::-1]


@pytest.fixture
def door() -> Iterator[str]:
    """The path to a door that is open in an event loop of another thread."""
    told: Queue[str] = Queue()
    over = threading.Event()

    async def main() -> None:
        opened = SocketDoor(reply)
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


def test_what_goes_through(door: str) -> None:
    """Nothing at all, and what is larger than any buffer on the way, too."""
    line = SocketLine(door, 10.0)
    for message in (b"hello", b"", bytes(range(256)) * 10_000):
        assert line.ask(message) == message[::-1]
    line.close()


def test_many_lines_at_once(door: str) -> None:
    def talk(who: int) -> list[str]:
        line = SocketLine(door, 10.0)
        said = [line.ask(f"{who}:{n}".encode())[::-1].decode() for n in range(20)]
        line.close()
        return said

    with ThreadPoolExecutor(16) as pool:
        for who, said in enumerate(pool.map(talk, range(16))):
            assert said == [f"{who}:{n}" for n in range(20)]


def test_only_our_user_can_enter(door: str) -> None:
    assert stat.S_IMODE(Path(door).parent.stat().st_mode) == 0o700


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SocketLine(str(tmp_path / "door"), 1.0)


def test_no_answer_in_time(door: str) -> None:
    line = SocketLine(door, 0.2)
    with pytest.raises(TimeoutError):
        line.ask(b"hang")
    line.close()


def test_a_message_that_is_too_long_is_not_sent(door: str) -> None:
    line = SocketLine(door, 10.0)
    with pytest.raises(RunStopped, match=r"^a question to the policy server has 67,108,865 bytes: must be at most 67,"):
        line.ask(b"\0" * (MOST_BYTES + 1))
    assert line.ask(b"abc") == b"cba"
    line.close()


def test_a_reply_that_is_too_long_is_not_read(door: str) -> None:
    line = SocketLine(door, 10.0)
    with pytest.raises(RunStopped, match=r"^a reply of the policy server has 67,108,865 bytes: must be at most 67,"):
        line.ask(b"much")
    line.close()


def test_who_announces_too_much_is_told_so_and_shut_out_and_nobody_else_is(door: str) -> None:
    """Nothing of it is read: who cannot be understood cannot make the server hold 4 GiB."""
    with socket.socket(socket.AF_UNIX) as foreign, closing(SocketLine(door, 10.0)) as ours:
        foreign.connect(door)
        foreign.sendall(b"\xff\xff\xff\xff")
        told = b""
        while part := foreign.recv(65536):
            told += part
        outcome = read_outcome(told[4:])
        assert isinstance(outcome, RunStopped)
        assert str(outcome) == "a question to the policy server has 4,294,967,295 bytes: must be at most 67,108,864"
        assert ours.ask(b"abc") == b"cba"


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
            line.ask(b"hello")
        line.close()
