"""A call for code without an event loop: one thread keeps the loop and its connections alive between calls.

with BlockingCall(ChatClient(endpoint, limiter)) as call:
    reply = call(request)
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from rollouts.calls.chat_records import Call, ChatReply, ChatRequest


class BlockingCall:
    """Sends a request and waits for the reply; raises what the call raises. May be shared between threads."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-calls", daemon=True)
        self._thread.start()

    def __call__(self, request: ChatRequest) -> ChatReply:
        future = asyncio.run_coroutine_threadsafe(self._send(request), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End what is still under way and close the connections. More than once is fine."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _send(self, request: ChatRequest) -> ChatReply:
        return await self._call(request)

    async def _end(self) -> None:
        """As `asyncio.run` does: first the tasks, then the generators (a client's connections end with them)."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
