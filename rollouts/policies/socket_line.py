"""Questions to a policy server of the same machine, over a Unix socket: a tenth of what a call through Ray takes.

A message is its length (4 bytes, big-endian) and a pickle. Both ends are processes of one run: the socket lies in a
folder that only our user can enter, and that goes with the server.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from rollouts.policies.base import Question
from rollouts.policies.batching import Outcome
from rollouts.scratch import ScratchFolder

Ask = Callable[[str, str, Question], Awaitable[Outcome]]
_LENGTH = struct.Struct(">I")


class SocketDoor:
    """The server's end: answers with `ask(name, who, question)`, in the event loop where it is opened."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._folder = ScratchFolder("policies")
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        """Where lines can be opened to. May be called again."""
        path = self._folder.path / "door"
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._serve, path)
        return str(path)

    async def close(self) -> None:
        """No more lines; those that are open end with their askers."""
        if self._server is not None:
            self._server.close()
        self._folder.remove()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One asker, until it goes away."""
        try:
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                name, who, question = pickle.loads(await reader.readexactly(length))
                writer.write(_message(await self._ask(name, who, question)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class SocketLine:
    """An asker's end, for one thread. Errors: `OSError` where nobody is there, or any more; `TimeoutError` among them
    where no answer comes for `patience_s`."""

    def __init__(self, path: str, patience_s: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(patience_s)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def ask(self, name: str, who: str, question: Question) -> Outcome:
        self._socket.sendall(_message((name, who, question)))
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        outcome: Outcome = pickle.loads(self._read(length))
        return outcome

    def close(self) -> None:
        self._socket.close()

    def _read(self, n: int) -> bytes:
        parts = bytearray()
        while len(parts) < n:
            part = self._socket.recv(n - len(parts))
            if not part:
                raise ConnectionResetError("the policy server went away")
            parts += part
        return bytes(parts)


def _message(content: Any) -> bytes:
    body = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body
