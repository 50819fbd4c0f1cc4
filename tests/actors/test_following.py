"""A job's log over connections that break: against a real WebSocket server on loopback."""

from __future__ import annotations

import asyncio
import json
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from actors.jobs import Jobs
from rollouts.errors import RolloutsError

pytestmark = pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")  # Ray's own doing
LOG = "".join(f"line {n}\n" for n in range(20))
RAY = metadata.version("ray")
VERSIONS = {"data": {"rayVersion": RAY, "pythonVersion": platform.python_version()}}
ENDED = {"type": "SUBMISSION", "submission_id": "j", "entrypoint": "x", "status": "FAILED", "driver_exit_code": 3}


@contextmanager
def dashboard(breaks: list[int], chunk: int = 7) -> Iterator[str]:
    """As Ray 2.60's: each connection to the log begins at its start. The n-th is cut after `breaks[n]` characters."""
    left = list(breaks)

    async def tail(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        end = left.pop(0) if left else len(LOG)
        for start in range(0, end, chunk):
            await socket.send_str(LOG[start : min(start + chunk, end)])
        if end < len(LOG):
            assert request.transport is not None
            request.transport.abort()
        return socket

    def page(told: object) -> Handler:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(text=json.dumps(told), content_type="application/json")

        return answer

    app = web.Application()
    app.router.add_get("/api/version", page({"ray_version": RAY}))
    app.router.add_get("/api/v0/cluster_metadata", page(VERSIONS))
    app.router.add_get("/api/jobs/j", page(ENDED))
    app.router.add_get("/api/jobs/j/logs/tail", tail)
    loop, runner = asyncio.new_event_loop(), web.AppRunner(app)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return int(runner.addresses[0][1])

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{asyncio.run_coroutine_threadsafe(start(), loop).result(30)}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.parametrize("breaks", [[], [10], [30, 9, 0]])
def test_each_line_comes_once_however_often_the_connection_breaks(
    breaks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.jobs.LOOK_S", 0.01)
    seen: list[str] = []
    with dashboard(breaks) as url:
        end = Jobs(url).follow("j", seen.append)
    assert "".join(seen) == LOG
    assert (end.state, end.code) == ("FAILED", 3)


def test_a_pipe_that_nobody_reads_ends_the_following() -> None:
    def write(_: str) -> None:
        raise BrokenPipeError

    with dashboard([]) as url, pytest.raises(BrokenPipeError):
        Jobs(url).follow("j", write)


def test_who_is_never_reached_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.jobs.LOOK_S", 0.01)
    with dashboard([5] * 100) as url, pytest.raises(RolloutsError, match="lost sight of job j, which may go on"):
        Jobs(url).follow("j", lambda _: None)
