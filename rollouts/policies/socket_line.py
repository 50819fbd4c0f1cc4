"""Messages to a policy server of the same machine, over a Unix socket: a tenth of what a call through Ray takes.

A message is its length (4 bytes, big-endian) and that many bytes; what they say is in server_messages.py. The socket
lies in a folder that only our user can enter, and that goes with the server.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

from rollouts.errors import RunStopped
from rollouts.policies.server_messages import pack_outcome
from rollouts.scratch import ScratchFolder

Reply = Callable[[bytes], Awaitable[bytes]]
MOST_BYTES = 64 * 2**20
"""Of one message; a picture of 3840 × 2160 pixels has 24 MiB."""
_LENGTH = struct.Struct(">I")


class SocketDoor:
    """The server's end: answers each message with `reply(message)`, in the event loop where it is opened."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
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
        """One asker, until it goes away, or sends too much: then there is no telling where its next message begins."""
        try:
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                if length > MOST_BYTES:
                    writer.write(_framed(pack_outcome(_too_long("a question to the policy server", length))))
                    break
                writer.write(_framed(await self._reply(await reader.readexactly(length))))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class SocketLine:
    """An asker's end, for one thread. Errors: `OSError` where nobody is there, or any more; `TimeoutError` among them
    where no answer comes for `patience_s`; `RunStopped` where a message is too long."""

    def __init__(self, path: str, patience_s: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(patience_s)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def ask(self, message: bytes) -> bytes:
        """The reply."""
        if len(message) > MOST_BYTES:
            raise _too_long("a question to the policy server", len(message))
        self._socket.sendall(_framed(message))
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > MOST_BYTES:
            raise _too_long("a reply of the policy server", length)
        return self._read(length)

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


def _framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


def _too_long(what: str, n: int) -> RunStopped:
    return RunStopped(f"{what} has {n:,} bytes: must be at most {MOST_BYTES:,}")
