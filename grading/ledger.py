"""The calls of one task: stored replies are used again, new ones are on file before the next question is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from grading.judged import JudgedCall, Observer
from grading.side_rows import Row, RowMaker, reply_of
from rollouts.calls.chat_records import Call, ChatReply, ChatRequest
from rollouts.calls.limits import Spending
from rollouts.calls.notice import notice_to
from rollouts.records import EpisodeKey

Kind = Literal["grade", "summarize"]
_WRITERS = ThreadPoolExecutor(32, "journal")
"""They wait for the disk, one for each request that is about to be sent or was judged: behind those that read units,
which work, sixteen requests would go out one after the other."""


class CallLedger:
    """Calls for one task on one unit, and the rows of `calls` that come of them.

    `committed` are the unit's rows of the `calls` shards, `on_file` those that a killed task left behind: their replies
    are used again where they were validated, and `rows` begins with the latter. `write` puts one row on file, over an
    earlier one of that call; it is called in threads, and what it raises comes out of the next call or of `settle`.
    """

    def __init__(  # noqa: PLR0913  one record's worth of names, all given by name
        self,
        call: Call,
        *,
        kind: Kind,
        who: str,
        attempt: str,
        make: RowMaker,
        committed: Sequence[Mapping[str, Any]],
        on_file: Sequence[Row],
        write: Callable[[Row], None],
    ) -> None:
        self._call = call
        self.who = who
        self._names = {"kind": kind, "who": who}
        self._attempt = attempt
        self._make = make
        self._write = write
        known = {row["call_id"] for row in committed}
        self.rows = [row for row in on_file if row["call_id"] not in known]
        self._ids: dict[str, str] = {}
        self._replies: dict[str, ChatReply] = {}
        self._made = 0
        self._unjudged: dict[tuple[EpisodeKey, str], list[str]] = {}
        self._writing: set[asyncio.Future[None]] = set()
        self._failed: BaseException | None = None
        for row in (*committed, *self.rows):
            if row["validated"] and not row.get("reused_call_id"):
                self._ids[row["request_sha256"]] = row["call_id"]
                self._replies[row["request_sha256"]] = reply_of(row)

    def about(self, key: EpisodeKey) -> Call:
        """The call for questions about one episode."""

        async def ask(request: ChatRequest, /) -> ChatReply:
            stored = self._replies.get(request.key())
            if stored is not None:
                return stored
            await self.settle()
            return await self._send(key, request)

        return ask

    def observer(self, key: EpisodeKey) -> Observer:
        """Takes in the judged calls about one episode."""
        return lambda judged: self._take(key, judged)

    def call_id(self, judged: JudgedCall) -> str:
        """The row that holds a judged call's reply."""
        return self._ids[judged.request.key()]

    async def settle(self) -> None:
        """Wait until every reply judged so far is on file."""
        while self._writing:
            await asyncio.wait(self._writing)
        if self._failed is not None:
            raise self._failed

    async def _send(self, key: EpisodeKey, request: ChatRequest) -> ChatReply:
        """The row of a call is on file before each of its requests goes out, and written anew once it is judged."""
        call_id, sent = self._new_id(), list[Row]()

        async def note(tries: int, spent: Spending) -> None:
            sent[:] = [self._make.sent(key, request, tries, spent, call_id=call_id, **self._names)]
            await self._put_on_file(sent[0])

        try:
            with notice_to(note):
                reply = await self._call(request)
        except BaseException:
            self.rows += sent
            raise
        self._unjudged.setdefault((key, request.key()), []).append(call_id)
        return reply

    def _new_id(self) -> str:
        self._made += 1
        return f"{self._attempt}.{self._made - 1}"

    def _take(self, key: EpisodeKey, judged: JudgedCall) -> None:
        request_key = judged.request.key()
        unjudged = [] if judged.reply.reused else self._unjudged.get((key, request_key), [])
        call_id = unjudged.pop(0) if unjudged else self._new_id()
        reused = self._ids.get(request_key) if judged.reply.reused else None
        row = self._make.call(key, judged, call_id=call_id, reused_call_id=reused, **self._names)
        self.rows.append(row)
        if not judged.reply.reused:
            self._ids[request_key] = call_id
            written = self._put_on_file(row)
            self._writing.add(written)
            written.add_done_callback(self._written)

    def _put_on_file(self, row: Row) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(_WRITERS, self._write, row)

    def _written(self, written: asyncio.Future[None]) -> None:
        self._writing.discard(written)
        if not written.cancelled() and self._failed is None:
            self._failed = written.exception()
