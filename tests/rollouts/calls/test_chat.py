"""The client against a real HTTP server on loopback: retries, time limits, loops, refusals, keys, numbers."""

from __future__ import annotations

import asyncio
import gc
import logging
import traceback
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from rollouts.calls.chat import ChatClient
from rollouts.calls.chat_records import ChatMessage, ChatReply, ChatRequest, ReplySchema
from rollouts.calls.endpoint import CallSettings, Endpoint
from rollouts.calls.fake_endpoint import FakeEndpoint, in_turn
from rollouts.calls.fake_replies import (
    FakeReply,
    FakeRequest,
    Fault,
    Script,
    broken,
    completion,
    failing,
    quota_exhausted,
    rate_limited,
    unsupported,
)
from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Budget, Limits, Order, Outcome, Permit, Spending
from rollouts.calls.notice import notice_to
from rollouts.calls.prices import Price
from rollouts.errors import BudgetSpent, RunStopped

SWIFT = CallSettings(time_limit_s=30, tries=6, pause_s=0.001, pause_cap_s=0.01, retry_after_cap_s=0.15)
PATIENT = Limits(pause_s=0.001, retry_after_cap_s=0.15)
SCHEMA = ReplySchema("grade", {"type": "object"})

Serve = Callable[..., FakeEndpoint]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts fake endpoints and stops them after the test."""
    started: list[FakeEndpoint] = []

    def start(script: Script | None = None, delay_s: float = 0.0) -> FakeEndpoint:
        started.append(FakeEndpoint(script, delay_s).start())
        return started[-1]

    yield start
    for fake in started:
        fake.stop()


def ask(text: str = "which way?", **fields: Any) -> ChatRequest:
    return ChatRequest("m", (ChatMessage("user", text),), **fields)


def client(fake: FakeEndpoint, limiter: LocalLimiter | None = None, settings: CallSettings = SWIFT) -> ChatClient:
    return ChatClient(Endpoint(fake.base_url), limiter or LocalLimiter(PATIENT), settings)


def call(fake: FakeEndpoint, request: ChatRequest | None = None, settings: CallSettings = SWIFT) -> ChatReply:
    return asyncio.run(once(client(fake, settings=settings)(request or ask())))


async def once(work: Coroutine[Any, Any, ChatReply]) -> ChatReply:
    return await work


def test_a_call_brings_back_all_that_the_endpoint_told(serve: Serve) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}
    reply = FakeReply(
        body={
            "model": "m-0501",
            "choices": [{"finish_reason": "stop", "message": {"content": "向左"}}],
            "usage": usage,
        },
        headers={"x-request-id": "req-7"},
        delay_s=0.05,
    )
    fake = serve(in_turn([reply]))
    limiter = LocalLimiter(PATIENT)
    prices = {"m": Price(input=1.0, output=10.0, cached=0.5)}
    got = asyncio.run(once(ChatClient(Endpoint(fake.base_url), limiter, SWIFT, prices)(ask())))
    assert (got.content, got.finish_reason, got.error) == ("向左", "stop", None)
    assert (got.model, got.system_fingerprint, got.request_id) == ("m-0501", "fake", "req-7")
    assert (got.tokens_in, got.tokens_out, got.tokens_cached, got.tries) == (100, 10, 40, 1)
    assert got.cost_usd == pytest.approx((60 * 1 + 40 * 0.5 + 10 * 10) / 1e6)
    assert limiter.status().spent == got.spent == Spending(1, 110, got.cost_usd or 0)
    assert got.answer_ms is not None
    assert got.total_ms is not None
    assert 50 <= got.answer_ms <= got.total_ms < 2000


def test_what_is_sent_is_what_was_asked(serve: Serve) -> None:
    fake = serve()
    reply = call(fake, ask("向右?", max_tokens=9, temperature=0.5, seed=3, schema=SCHEMA, top_logprobs=2))
    assert reply.adjustments == ()
    assert dict(fake.requests[0].body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "向右?"}],
        "max_tokens": 9,
        "temperature": 0.5,
        "seed": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "grade", "schema": {"type": "object"}, "strict": True},
        },
        "logprobs": True,
        "top_logprobs": 2,
    }
    assert reply.logprobs is not None
    assert [token.token for token in reply.logprobs] == ["OK"]


def test_an_unknown_price_is_no_cost(serve: Serve) -> None:
    assert call(serve()).cost_usd is None


@pytest.mark.parametrize(
    "bad",
    [
        failing(500),
        failing(503),
        failing(408),
        rate_limited(),
        broken("reset"),
        broken("drop"),
        FakeReply(body=b"<html>"),
        FakeReply(body=b'{"choices": [{"mess'),
        FakeReply(body={"error": {"code": 503, "message": "busy"}}),
    ],
)
def test_what_may_pass_is_tried_again(serve: Serve, bad: FakeReply) -> None:
    fake = serve(in_turn([bad, bad, completion("left")]))
    reply = call(fake)
    assert (reply.content, reply.tries, reply.error) == ("left", 3, None)
    assert len(fake.requests) == 3


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (quota_exhausted(), "quota"),
        (failing(401, "wrong key"), "unauthorized"),
        (failing(403), "forbidden"),
        (failing(404), "not_found"),
        (failing(400, "what?"), "bad_request"),
        (failing(400, "maximum context length is 10 tokens", code="context_length_exceeded"), "context_length"),
        (failing(400, "filtered", code="content_filter"), "content_filter"),
    ],
)
def test_what_no_retry_mends_is_sent_once(serve: Serve, bad: FakeReply, kind: str) -> None:
    fake = serve(lambda _: bad)
    reply = call(fake)
    assert reply.error is not None
    assert (reply.content, reply.error.kind, reply.tries) == (None, kind, 1)
    assert len(fake.requests) == 1


def test_a_storm_ends_with_the_tries_that_we_count(serve: Serve) -> None:
    fake = serve(lambda _: failing(503, "storm"))
    reply = call(fake)
    assert reply.error is not None
    assert (reply.error.kind, reply.error.message) == ("http_503", "HTTP 503: storm")
    assert reply.tries == len(fake.requests) == SWIFT.tries
    assert reply.answer_ms is None


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry_after": "0.1"}, 0.1),
        ({"retry_after_ms": "100"}, 0.1),
        ({"retry_after": "86400"}, 0.15),
        ({"retry_after": "Wed, 01 Jul 2026 12:09:00 GMT", "date": "Wed, 01 Jul 2026 12:00:00 GMT"}, 0.15),
    ],
)
def test_retry_after_is_waited_for_up_to_the_cap(serve: Serve, headers: dict[str, str], wait_s: float) -> None:
    fake = serve(in_turn([rate_limited(**headers), completion("left")]))
    reply = call(fake)
    first, second = fake.requests
    assert wait_s <= second.at_s - first.at_s < wait_s + 5
    assert reply.tries == 2
    assert reply.pause_ms is not None
    assert reply.pause_ms >= wait_s * 1000


@pytest.mark.slow
def test_queue_pauses_and_answer_are_told_apart(serve: Serve) -> None:
    """One slot, a 429 that asks for 0.1 s, then an answer of 0.1 s; the others wait in line meanwhile."""
    fake = serve(in_turn([rate_limited(retry_after="0.1")]), delay_s=0.1)
    limiter = LocalLimiter(Limits(in_flight=1))
    calls = client(fake, limiter)

    async def main() -> list[ChatReply]:
        return await asyncio.gather(*(calls(ask(str(number))) for number in range(3)))

    replies = asyncio.run(main())
    for reply in replies:
        assert reply.answer_ms is not None
        assert reply.answer_ms >= 100
        assert reply.total_ms is not None
        assert reply.queue_ms is not None
        assert reply.pause_ms is not None
        failed_ms = reply.total_ms - reply.queue_ms - reply.pause_ms - reply.answer_ms
        assert failed_ms >= 100 * (reply.tries - 1)
    tried_twice = [reply for reply in replies if reply.tries == 2]
    assert len(tried_twice) == 1
    assert all(reply.pause_ms == 0 for reply in replies if reply.tries == 1)
    assert max(reply.queue_ms or 0 for reply in replies) >= 200
    assert fake.most_in_flight == 1


def test_no_try_is_begun_once_a_call_has_taken_its_time(serve: Serve) -> None:
    """Six tries of 0.2 s each, and 0.3 s of patience: the second is under way by then, and is the last."""
    fake = serve(lambda _request: broken("silence"))
    settings = replace(SWIFT, time_limit_s=0.2, patience_s=0.3)
    reply = asyncio.run(client(fake, settings=settings)(ask()))
    assert reply.error is not None
    assert (reply.error.kind, reply.tries, len(fake.requests)) == ("timeout", 2, 2)


def test_retries_of_many_calls_are_spread_out(serve: Serve) -> None:
    """Eight calls fail at the same moment; their second tries come at different times."""
    asked: list[str] = []

    def fail_once(request: FakeRequest) -> FakeReply | None:
        asked.append(request.text)
        return failing(500) if asked.count(request.text) == 1 else None

    fake = serve(fail_once)
    calls = client(fake, settings=CallSettings(pause_s=0.2))

    async def main() -> None:
        await asyncio.gather(*(calls(ask(str(number))) for number in range(8)))

    asyncio.run(main())
    first = {request.text: request.at_s for request in reversed(fake.requests)}
    pauses = [request.at_s - first[request.text] for request in fake.requests if request.at_s > first[request.text]]
    assert len(pauses) == 8
    assert max(pauses) - min(pauses) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["silence", "headers_then_silence", "comments", "drip"])
def test_no_server_can_hold_a_call_longer_than_the_limit(serve: Serve, fault: Fault) -> None:
    """Also one that sends something all the time; then the slot is free and the next call goes on."""
    stuck = FakeReply(body={"choices": [], "padding": "x" * 1000}, fault=fault)
    fake = serve(in_turn([stuck, stuck]))
    calls = client(fake, LocalLimiter(Limits(in_flight=1)), CallSettings(time_limit_s=0.2, tries=2, pause_s=0.001))

    async def main() -> tuple[ChatReply, ChatReply]:
        return await calls(ask("stuck")), await calls(ask("next"))

    stuck_reply, next_reply = asyncio.run(main())
    assert stuck_reply.error is not None
    assert (stuck_reply.error.kind, stuck_reply.tries) == ("timeout", 2)
    assert stuck_reply.total_ms is not None
    assert 400 <= stuck_reply.total_ms < 4000
    assert next_reply.content == "OK"


def test_nobody_listens() -> None:
    with FakeEndpoint() as fake:
        gone = Endpoint(fake.base_url)
    limiter = LocalLimiter(PATIENT)
    reply = asyncio.run(once(ChatClient(gone, limiter, SWIFT)(ask(max_tokens=100))))
    assert reply.error is not None
    assert (reply.error.kind, reply.tries) == ("connection", SWIFT.tries)
    assert limiter.status().spent == reply.spent == Spending(SWIFT.tries)


def test_a_request_whose_endpoint_does_not_say_what_it_cost_counts_as_estimated(serve: Serve) -> None:
    """The question has 9 bytes: 9 // 3 + 8 = 11 tokens, and 100 for the reply; the first try ends without a word."""
    fake = serve(
        in_turn([broken("reset"), FakeReply(body={"choices": [{"message": {"content": "OK"}}], "usage": None})])
    )
    limiter = LocalLimiter(PATIENT)
    prices = {"m": Price(input=1.0, output=10.0)}
    told: list[tuple[int, Spending]] = []

    async def note(tries: int, spent: Spending) -> None:
        told.append((tries, spent))

    request = ChatRequest("m", (ChatMessage("user", "nine byte"),), max_tokens=100)
    with notice_to(note):
        reply = asyncio.run(once(ChatClient(Endpoint(fake.base_url), limiter, SWIFT, prices)(request)))
    assert (reply.content, reply.tries, reply.tokens_in, reply.cost_usd) == ("OK", 2, None, None)
    one = Spending(1, 111, (11 * 1 + 100 * 10) / 1e6)
    assert told == [(1, one), (2, Spending(2, 222, 2 * one.usd))]
    assert limiter.status().spent == reply.spent == told[-1][1]


@pytest.mark.slow
def test_one_client_in_several_event_loops(serve: Serve) -> None:
    fake = serve()
    calls = client(fake)
    for _ in range(2):
        assert asyncio.run(once(calls(ask()))).content == "OK"
    loop = asyncio.new_event_loop()  # one that is closed without any farewell
    assert loop.run_until_complete(calls(ask())).content == "OK"
    loop.run_until_complete(calls.close())
    loop.close()
    assert asyncio.run(once(calls(ask()))).content == "OK"
    gc.collect()
    assert len(fake.requests) == 4


def test_connections_are_kept_between_calls_and_closed_with_the_loop(serve: Serve) -> None:
    fake = serve()
    calls = client(fake)

    async def main() -> int:
        for number in range(5):
            await calls(ask(str(number)))
        return fake.connections

    assert asyncio.run(main()) == 1
    assert fake.wait_until(lambda: fake.connections == 0)


def test_a_cancelled_call_gives_its_turn_back(serve: Serve) -> None:
    fake = serve(in_turn([broken("silence")]))
    limiter = LocalLimiter(Limits(in_flight=1))
    calls = client(fake, limiter)

    async def main() -> ChatReply:
        task = asyncio.create_task(once(calls(ask("first"))))
        while not fake.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await asyncio.wait_for(calls(ask("second")), 10)

    assert asyncio.run(main()).content == "OK"
    assert limiter.status().in_flight == 0


REFUSABLE = {
    "max_tokens": ("max_tokens", "max_tokens->max_completion_tokens"),
    "temperature": ("temperature", "-temperature"),
    "seed": ("seed", "-seed"),
    "response_format": ("json_schema", "json_schema->json_object"),
}


@pytest.mark.parametrize("parameter", REFUSABLE)
def test_a_refused_parameter_is_learnt_once_and_told_each_time(serve: Serve, parameter: str) -> None:
    word, adjustment = REFUSABLE[parameter]

    def script(request: FakeRequest) -> FakeReply | None:
        refused = (
            word in str(request.body.get(parameter)) if parameter == "response_format" else parameter in request.body
        )
        return unsupported(parameter) if refused else None

    fake = serve(script)
    calls = client(fake)

    async def main() -> list[ChatReply]:
        full = {"max_tokens": 9, "temperature": 0.0, "seed": 1, "schema": SCHEMA}
        return [await calls(ask(str(number), **full)) for number in range(3)]

    replies = asyncio.run(main())
    assert [reply.tries for reply in replies] == [2, 1, 1]
    assert all(reply.error is None and reply.adjustments == (adjustment,) for reply in replies)
    assert len(fake.requests) == 4


def test_an_endpoint_that_refuses_everything_gets_the_bare_question(serve: Serve) -> None:
    def script(request: FakeRequest) -> FakeReply | None:
        for name in ("max_tokens", "max_completion_tokens", "temperature", "seed", "response_format"):
            if name in request.body:
                return unsupported(name)
        return failing(400, "image_url is not supported") if "image_url" in str(request.body) else None

    fake = serve(script)
    pictured = ChatRequest("m", (ChatMessage("user", "look", ("data:image/png;base64,AA",)),), 9, 0.0, 1, SCHEMA)
    reply = call(fake, pictured)
    assert reply.content == "OK"
    assert reply.tries == len(fake.requests) == 8
    assert set(reply.adjustments) == {"-images", "-max_tokens", "-temperature", "-seed", "-json_schema"}
    assert fake.requests[-1].body == {"model": "m", "messages": [{"role": "user", "content": "look"}]}


def test_refused_logprobs_end_the_call_and_are_not_asked_for_again(serve: Serve) -> None:
    fake = serve(lambda request: unsupported("logprobs") if "logprobs" in request.body else None)
    calls = client(fake)

    async def main() -> list[ChatReply]:
        return [await calls(ask(top_logprobs=5)), await calls(ask(top_logprobs=5)), await calls(ask())]

    first, second, without = asyncio.run(main())
    for refused in (first, second):
        assert refused.error is not None
        assert refused.error.kind == "logprobs_refused"
        assert refused.content is None
    assert "not supported with this model" in str(first.error)
    assert without.content == "OK"
    assert len(fake.requests) == 2


def test_what_one_client_learns_another_one_knows(serve: Serve) -> None:
    fake = serve(lambda request: unsupported("seed") if "seed" in request.body else None)
    limiter = LocalLimiter(PATIENT)

    async def main() -> list[ChatReply]:
        return [await client(fake, limiter)(ask(seed=1)) for _ in range(3)]

    assert [reply.tries for reply in asyncio.run(main())] == [2, 1, 1]


class Forgetful:
    """A limiter that lets everybody go at once and remembers nothing."""

    async def acquire(self, order: Order) -> Permit:
        return Permit(1, order.lane)

    async def settle(self, permit: Permit, outcome: Outcome) -> None:
        pass


def test_a_client_remembers_without_the_help_of_its_limiter(serve: Serve) -> None:
    fake = serve(lambda request: unsupported("seed") if "seed" in request.body else None)
    calls = ChatClient(Endpoint(fake.base_url), Forgetful(), SWIFT)

    async def main() -> list[ChatReply]:
        return [await calls(ask(seed=1)) for _ in range(2)]

    assert [reply.tries for reply in asyncio.run(main())] == [2, 1]


def test_no_proxy_stands_between_us_and_loopback(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert call(serve()).content == "OK"


@pytest.mark.parametrize("bad", [quota_exhausted(), failing(401, "wrong key"), failing(400, "what?")])
def test_a_few_hopeless_calls_stop_the_pool(serve: Serve, bad: FakeReply) -> None:
    fake = serve(lambda _: bad)
    calls = client(fake, LocalLimiter(Limits(in_flight=1, stop_after=3)))

    async def main() -> list[ChatReply | BaseException]:
        return await asyncio.gather(*(calls(ask(str(item))) for item in range(50)), return_exceptions=True)

    results = asyncio.run(main())
    assert len(fake.requests) == 3
    assert sum(isinstance(result, ChatReply) for result in results) == 3
    stops = {str(result) for result in results if isinstance(result, RunStopped)}
    assert len(stops) == 1
    assert "3 calls in a row were refused" in stops.pop()


def test_the_budget_ends_the_run_at_its_limit(serve: Serve) -> None:
    fake = serve(lambda request: failing(500) if request.number == 2 else None)
    limiter = LocalLimiter(Limits(in_flight=4, budget=Budget(calls=10)))
    calls = client(fake, limiter)

    async def main() -> list[ChatReply | BaseException]:
        return await asyncio.gather(*(calls(ask(str(item))) for item in range(20)), return_exceptions=True)

    results = asyncio.run(main())
    assert len(fake.requests) == 10
    assert sum(isinstance(result, ChatReply) and result.error is None for result in results) == 9
    assert sum(isinstance(result, BudgetSpent) for result in results) == 11
    assert limiter.status().spent.calls == 10


def test_sixteen_at_once_over_several_clients_and_never_more(serve: Serve) -> None:
    fake = serve(delay_s=0.02)
    limiter = LocalLimiter(Limits(in_flight=16))
    pool = [client(fake, limiter) for _ in range(4)]

    async def main() -> None:
        await asyncio.gather(*(pool[item % 4](ask(str(item))) for item in range(96)))

    asyncio.run(main())
    assert fake.most_in_flight == 16
    assert len(fake.requests) == 96


@pytest.mark.slow
def test_throttled_calls_slow_down_together_and_all_end_well(serve: Serve) -> None:
    """The server takes 4 at once and answers 429 to the rest: the window finds its way."""
    fake: FakeEndpoint

    def script(_: FakeRequest) -> FakeReply | None:
        return rate_limited() if fake.in_flight > 4 else completion("OK", delay_s=0.01)

    fake = serve(script)
    limiter = LocalLimiter(Limits(in_flight=16, pause_s=0.005))
    calls = client(fake, limiter, CallSettings(tries=20, pause_s=0.005, pause_cap_s=0.05))

    async def main() -> list[ChatReply]:
        return await asyncio.gather(*(calls(ask(str(item))) for item in range(60)))

    replies = asyncio.run(main())
    assert all(reply.content == "OK" for reply in replies)
    assert sum(reply.tries for reply in replies) == len(fake.requests) < 200


def test_a_key_is_sent_and_shown_nowhere(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    marker = "marker-of-a-key-3141"
    monkeypatch.setenv("OPENAI_API_KEY", marker)
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {marker}. Bearer {marker}"
    fake = serve(in_turn([failing(500, echo), failing(401, echo), FakeReply(body=marker.encode())]))
    calls = client(fake, settings=CallSettings(tries=1))
    seen = [repr(calls)]

    async def main() -> None:
        seen.extend([str(await calls(ask())) for _ in range(3)])

    asyncio.run(main())
    assert all(request.has_key for request in fake.requests)
    shown = "\n".join([*seen, caplog.text, *capfd.readouterr(), str(fake.requests), str(vars(calls))])
    assert "Incorrect API key provided: [key]" in shown
    assert marker not in shown


def test_a_key_is_in_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    marker = "marker-of-a-key-2718"
    monkeypatch.setenv("OPENAI_API_KEY", marker)
    with FakeEndpoint(lambda _: failing(401, marker)) as fake:
        calls = client(fake, LocalLimiter(Limits(stop_after=1)))
        try:
            asyncio.run(once(calls(ask())))
            asyncio.run(once(calls(ask())))
        except RunStopped as stop:
            lines = traceback.TracebackException.from_exception(stop, capture_locals=True).format(chain=True)
            shown = "".join(line for line in lines)
            assert "HTTP 401" in shown
            assert marker not in shown.replace(f"marker = '{marker}'", "")
        else:
            pytest.fail("the pool was not stopped")
