"""An OpenAI-compatible endpoint without a model: real HTTP, scripted replies, a log of every request.

For tests, and for trying a whole run without a key and without cost:

    with FakeEndpoint() as fake:                # or: rollouts fake-endpoint --port 8000
        ...                                     # OPENAI_BASE_URL=fake.base_url
        fake.requests, fake.most_in_flight

Standard library alone. Listens on loopback unless told otherwise.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import formatdate
from types import TracebackType
from typing import Any, Self, TextIO

from rollouts.calls.fake_replies import FakeReply, FakeRequest, Script, complete, plausible
from rollouts.errors import UsageError

DRIP_S = 0.05
_SERVED = ("/chat/completions", "/systemone")
LARGEST_BODY_BYTES = 64 * 2**20
_GONE = (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError)


def in_turn(replies: Iterable[FakeReply]) -> Script:
    """One reply after the other in order of arrival, then the plausible default."""
    rest = iter(tuple(replies))
    return lambda _request: next(rest, None)


class FakeEndpoint:
    """Serves from a thread of its own between `start` and `stop` (or as a context manager); safe to read meanwhile.

    `script` is called in that thread, one request at a time. `delay_s` holds back every reply, besides its own delay.
    `on_request` sees each request as it arrives. Raises `UsageError` where the address cannot be had.
    """

    def __init__(
        self,
        script: Script | None = None,
        delay_s: float = 0.0,
        address: tuple[str, int] = ("127.0.0.1", 0),
        on_request: Callable[[FakeRequest], None] | None = None,
    ) -> None:
        self._script = script
        self._delay_s = delay_s
        self._address = address
        self._on_request = on_request
        self._requests: list[FakeRequest] = []
        self._in_flight = 0
        self._most = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-endpoint", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        host, port = self._address
        return f"http://{host}:{port}/v1"

    @property
    def requests(self) -> tuple[FakeRequest, ...]:
        """Every completion and decision that was asked for, in order of arrival."""
        return tuple(self._requests)

    @property
    def in_flight(self) -> int:
        """Requests that have arrived whole and are not answered yet."""
        return self._in_flight

    @property
    def most_in_flight(self) -> int:
        return self._most

    @property
    def connections(self) -> int:
        """Connections that are open just now."""
        return len(self._connections)

    def wait_until(self, condition: Callable[[], bool], seconds: float = 5.0) -> bool:
        """Look again and again until `condition` holds; False where it does not within `seconds`."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def start(self) -> Self:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        except OSError as error:
            self.stop()
            raise UsageError(f"cannot listen on {self._address[0]}:{self._address[1]}: {error.strerror}") from None
        return self

    def stop(self) -> None:
        """Close all connections, silent ones too."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _listen(self) -> None:
        host, port = self._address
        self._server = await asyncio.start_server(self._serve, host, port)
        self._address = (host, self._server.sockets[0].getsockname()[1])

    async def _shut(self) -> None:
        if self._server is not None:
            await asyncio.sleep(0.01)  # asyncio loses a connection that it is accepting just when its server closes
            self._server.close()
        for connection in tuple(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # closed sockets are let go in the next turn of the loop

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: request after request, until the client has enough."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (asked := await _read_request(reader)) is not None:
                await self._answer(asked, writer, reader)
        except (*_GONE, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, asked: _Asked, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        if not asked.path.endswith(_SERVED):
            await _send(writer, _other(asked))
            return
        request = self._note(asked)
        self._in_flight += 1
        self._most = max(self._most, self._in_flight)
        try:
            reply = await self._reply(request, reader)
            if reply.fault is not None:
                await _spoil(reply, writer, reader)
        finally:
            self._in_flight -= 1  # before the reply goes out: its reader may ask again at once
        await _send(writer, reply)

    def _note(self, asked: _Asked) -> FakeRequest:
        number = len(self._requests) + 1
        request = FakeRequest(number, time.monotonic(), asked.method, asked.path, asked.body, asked.has_key)
        self._requests.append(request)
        if self._on_request is not None:
            self._on_request(request)
        return request

    async def _reply(self, request: FakeRequest, reader: asyncio.StreamReader) -> FakeReply:
        reply = (self._script(request) if self._script else None) or plausible(request)
        await _stay(reader, self._delay_s + reply.delay_s)
        return replace(reply, body=complete(request, reply))


@dataclass(frozen=True, slots=True)
class _Asked:
    method: str
    path: str
    body: dict[str, Any]
    has_key: bool


async def _read_request(reader: asyncio.StreamReader) -> _Asked | None:
    """The next request of a connection, or None at its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    fields = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= LARGEST_BODY_BYTES:
        return None
    body = _parse(await reader.readexactly(length))
    return _Asked(method, path.partition("?")[0], body, bool(headers.get("authorization")))


def _parse(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _other(asked: _Asked) -> FakeReply:
    if asked.method == "GET" and asked.path.endswith("/models"):
        return FakeReply(body={"object": "list", "data": [{"id": "fake", "object": "model", "owned_by": "nobody"}]})
    return FakeReply(
        404, {"error": {"message": f"{asked.method} {asked.path}: only completions and decisions are served"}}
    )


async def _stay(reader: asyncio.StreamReader, seconds: float | None) -> None:
    """Wait, for ever where None; a client that goes away meanwhile ends it with `ConnectionResetError`."""
    if seconds is not None and seconds <= 0:
        return
    try:
        async with asyncio.timeout(seconds):
            await reader.read(1)
    except TimeoutError:
        return
    raise ConnectionResetError


async def _send(writer: asyncio.StreamWriter, reply: FakeReply) -> None:
    payload = _payload(reply)
    writer.write(_head(reply, len(payload)) + payload)
    await writer.drain()


def _payload(reply: FakeReply) -> bytes:
    if isinstance(reply.body, bytes):
        return reply.body
    return b"" if reply.body is None else json.dumps(reply.body, ensure_ascii=False).encode()


def _head(reply: FakeReply, length: int) -> bytes:
    fields = {
        "date": formatdate(usegmt=True),
        "content-type": "application/json",
        "content-length": str(length),
        **{name.lower(): value for name, value in reply.headers.items()},
    }
    lines = [f"HTTP/1.1 {reply.status} -", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _spoil(reply: FakeReply, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
    """Carry out the fault; ends the connection by raising."""
    payload = _payload(reply)
    if reply.fault in ("headers_then_silence", "reset", "drip"):
        writer.write(_head(reply, len(payload) + 1))
    if reply.fault in ("silence", "headers_then_silence"):
        await _stay(reader, None)
    elif reply.fault == "comments":
        await _comment_for_ever(writer, reader)
    elif reply.fault == "drip":
        await _drip(payload, writer, reader)
    elif reply.fault == "reset":
        writer.write(payload[: len(payload) // 2])
        await writer.drain()
    raise ConnectionResetError


async def _comment_for_ever(writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
    """Server-sent comments: the line is alive, and nothing ever comes."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
    while True:
        writer.write(b": keep-alive\n\n")
        await _stay(reader, DRIP_S)


async def _drip(payload: bytes, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
    for byte in payload:
        writer.write(bytes([byte]))
        await _stay(reader, DRIP_S)


def serve_forever(port: int = 8000, host: str = "127.0.0.1", delay_s: float = 0.0, log: TextIO | None = None) -> None:
    """Answer plausibly until interrupted: the command `rollouts fake-endpoint`. `log` gets one JSON line a request."""

    def write_line(request: FakeRequest) -> None:
        if log is not None:
            line = {"number": request.number, "at_s": request.at_s, "has_key": request.has_key, "body": request.body}
            print(json.dumps(line, ensure_ascii=False), file=log, flush=True)

    with (
        FakeEndpoint(delay_s=delay_s, address=(host, port), on_request=write_line) as fake,
        suppress(KeyboardInterrupt),
    ):
        print(f"OPENAI_BASE_URL={fake.base_url} OPENAI_API_KEY=none", flush=True)
        threading.Event().wait()
