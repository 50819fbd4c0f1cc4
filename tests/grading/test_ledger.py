"""The calls of one task, without storage: what is on file is used again, what fails to be written is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from grading.judged import JudgedCall
from grading.ledger import CallLedger
from grading.side_rows import Row, RowMaker, reply_of
from rollouts.calls.chat_records import Call, CallError, ChatMessage, ChatReply, ChatRequest
from rollouts.calls.limits import Spending
from rollouts.calls.notice import give_notice
from rollouts.calls.replies import Cause
from rollouts.errors import BudgetSpent, RunStopped, StorageError
from tests.judged_runs import NOON, Model
from tests.shard_doubles import unit

MAKE = RowMaker("a-run", unit(3, (1,)), lambda: datetime(2031, 1, 1, tzinfo=UTC))
KEY = MAKE.unit.keys()[0]
REPLY = ChatReply(
    "好", "stop", model="m-1", request_id="r1", tokens_in=7, tokens_out=2, tries=3, answer_ms=5.0, cost_usd=0.1,
    adjustments=("-seed",), reasoning="hm",
)  # fmt: skip


def question(text: str, **changes: Any) -> ChatRequest:
    return ChatRequest("m", (ChatMessage("user", text),), **changes)


def ledger(
    model: Call, *, committed: list[Row] | None = None, on_file: list[Row] | None = None,
    write: Callable[[Row], None] = lambda _row: None,
) -> CallLedger:  # fmt: skip
    names: dict[str, Any] = {"kind": "grade", "who": "judge-1", "attempt": "e1-x-0", "make": MAKE, "write": write}
    return CallLedger(model, committed=committed or [], on_file=on_file or [], **names)


async def ask(book: CallLedger, request: ChatRequest) -> ChatReply:
    return await book.about(KEY)(request)


def row(text: str, call_id: str, reply: ChatReply = REPLY, validated: bool = True, **changes: Any) -> Row:
    judged = JudgedCall(question(text, **changes), reply, validated, None if validated else Cause.NOT_JSON)
    return MAKE.call(KEY, judged, call_id=call_id, reused_call_id=None, kind="grade", who="judge-1")


def test_a_validated_reply_is_used_again_and_costs_nothing_now() -> None:
    model = Model()
    book = ledger(model, committed=[row("a", "old.0")])
    reply = asyncio.run(ask(book, question("a")))
    assert (model.requests, reply.content, reply.reasoning, reply.reused) == ([], "好", "hm", True)
    assert (reply.tries, reply.tokens_in, reply.cost_usd, reply.answer_ms) == (0, None, None, None)

    async def judge() -> None:
        book.observer(KEY)(JudgedCall(question("a"), reply, True))

    asyncio.run(judge())
    (made,) = book.rows
    assert (made["call_id"], made["reused_call_id"], made["tries"]) == ("e1-x-0.0", "old.0", 0)
    assert made.get("content") is made.get("tokens_in") is made.get("cost_usd") is None
    assert book.call_id(JudgedCall(question("a"), reply, True)) == "old.0"


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        (row("a", "x", validated=False), question("a")),
        (row("a", "x", ChatReply(None, error=CallError("http_500", "no")), validated=False), question("a")),
        (row("a", "x"), question("a", repeat=1)),
        (row("a", "x"), question("a", grading=1)),
        (row("a", "x"), question("a", temperature=0.5)),
        ({**row("a", "x"), "reused_call_id": "older"}, question("a")),
    ],
)
def test_nothing_else_is(stored: Row, asked: ChatRequest) -> None:
    model = Model()
    asyncio.run(ask(ledger(model, committed=[stored]), asked))
    assert len(model.requests) == 1


def test_what_a_killed_task_left_is_taken_over_unless_a_shard_has_it() -> None:
    on_file = [row("a", "dead.0"), row("b", "dead.1", validated=False)]
    assert [r["call_id"] for r in ledger(Model(), on_file=on_file).rows] == ["dead.0", "dead.1"]
    assert [r["call_id"] for r in ledger(Model(), committed=on_file[:1], on_file=on_file).rows] == ["dead.1"]


def test_a_reply_is_on_file_before_the_next_question() -> None:
    written: list[str] = []
    seen: list[list[str]] = []
    model = Model(say=lambda _request: "ok", on_request=lambda _request: seen.append(list(written)))
    book = ledger(model, write=lambda row: written.append(row["call_id"]))

    async def ask() -> None:
        for text in ("a", "b"):
            book.observer(KEY)(JudgedCall(question(text), await book.about(KEY)(question(text)), True))
        await book.settle()

    asyncio.run(ask())
    assert seen == [[], ["e1-x-0.0"]]
    assert written == ["e1-x-0.0", "e1-x-0.1"]


@pytest.mark.parametrize("ends", [BudgetSpent("spent"), RunStopped("refused"), asyncio.CancelledError()])
def test_each_request_is_on_file_before_it_is_sent_and_stays_where_nothing_comes_of_it(ends: BaseException) -> None:
    written: list[Row] = []

    async def sends_twice(_request: ChatRequest, /) -> ChatReply:
        for tries in (1, 2):
            await give_notice(tries, Spending(tries, 30 * tries, 0.5 * tries))
            assert [(r["call_id"], r["tries"]) for r in written] == [("e1-x-0.0", n + 1) for n in range(tries)]
        raise ends

    book = ledger(sends_twice, write=written.append)
    with pytest.raises(type(ends)):
        asyncio.run(ask(book, question("a")))
    (left,) = book.rows
    assert left is written[-1]
    assert (left["status"], left["tries"], left["validated"], left["who"]) == ("abandoned", 2, False, "judge-1")
    assert (left["budget_tokens"], left["budget_usd"], left.get("tokens_in")) == (60, 1.0, None)
    assert left["episode_id"] == KEY.episode_id
    model = Model(say=lambda _request: "ok")
    again = ledger(model, on_file=[left])
    assert asyncio.run(ask(again, question("a"))).content == "ok"
    assert (len(model.requests), again.rows) == (1, [left])


def test_what_comes_of_requests_is_written_over_their_rows_also_where_two_episodes_ask_the_same() -> None:
    written: list[Row] = []
    keys = RowMaker("a-run", unit(3, (1, 2)), MAKE.now).unit.keys()

    async def sends(request: ChatRequest, /) -> ChatReply:
        await give_notice(1, Spending(1))
        return await Model(say=lambda _request: "ok")(request)

    async def both() -> None:
        replies = await asyncio.gather(*(book.about(key)(question("a")) for key in keys))
        for key, reply in zip(keys, replies, strict=True):
            book.observer(key)(JudgedCall(question("a"), reply, True))
        await book.settle()

    book = ledger(sends, write=written.append)
    asyncio.run(both())
    last = {row["call_id"]: (row["episode_id"], row["status"]) for row in written}
    assert len(written) == 4
    assert last == {f"e1-x-0.{n}": (key.episode_id, "validated") for n, key in enumerate(keys)}
    assert [row["call_id"] for row in book.rows] == list(last)


def test_a_reply_that_cannot_be_put_on_file_stops_the_task() -> None:
    def full(_row: Row) -> None:
        raise StorageError("cannot write: the disk is full")

    book = ledger(Model(say=lambda _request: "ok"), write=full)

    async def ask() -> None:
        book.observer(KEY)(JudgedCall(question("a"), await book.about(KEY)(question("a")), True))
        await book.about(KEY)(question("b"))

    with pytest.raises(StorageError, match="the disk is full"):
        asyncio.run(ask())


def test_a_call_as_a_row_and_back() -> None:
    made = row("a", "x.0", grading=2, repeat=1)
    assert (made["grading"], made["repeat"], made["status"], made["tries"]) == (2, 1, "validated", 3)
    assert (made["tokens_in"], made["cost_usd"], made["adjustments"]) == (7, 0.1, ["-seed"])
    assert made["request_sha256"] == question("a", grading=2, repeat=1).key()
    assert made["ended_at"] > NOON
    back = reply_of(made)
    assert (back.content, back.finish_reason, back.model, back.request_id) == ("好", "stop", "m-1", "r1")
    refused = row("a", "x.1", validated=False)
    assert (refused["status"], refused["cause"]) == ("refused", "not_json")
    failed = row("a", "x.2", ChatReply(None, error=CallError("timeout", "after 60 s")), validated=False)
    assert (failed["status"], failed["error_kind"], failed["error"]) == ("failed", "timeout", "after 60 s")
