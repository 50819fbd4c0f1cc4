"""The one client that talks to models, and the only importer of the `openai` package.

    call = ChatClient(endpoint, limiter)
    reply = await call(request)         # a ChatReply; `reply.error` says why where there is no answer

Retries are made here alone; the package's own are switched off. Whether a request may go out is the limiter's business,
what a reply means is the reader's.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import openai

from rollouts.calls.call_failures import Failure, bad_reply_failure, connection_failure, status_failure, timeout_failure
from rollouts.calls.chat_records import CallError, ChatReply, ChatRequest
from rollouts.calls.dialect import Body, learn
from rollouts.calls.endpoint import CallSettings, Endpoint
from rollouts.calls.limits import Limiter, Order, Outcome, OutcomeKind, Spending
from rollouts.calls.notice import give_notice
from rollouts.calls.prices import PRICES, Price, estimate_tokens, find_price
from rollouts.calls.wire import CHAT, Wire

_RAW = {"X-Stainless-Raw-Response": "true"}
"""Makes the package hand over the reply as it came, as its own `with_raw_response` does."""
_OPEN: set[_Connection] = set()


@dataclass(slots=True)
class _Course:
    """What one call has been through so far; times in seconds."""

    started_at: float
    tries: int = 0
    failures: int = 0
    queue_s: float = 0.0
    pause_s: float = 0.0
    answer_s: float = 0.0
    tries_ms: list[float] = field(default_factory=list)
    spent: Spending = field(default_factory=Spending)
    adjustments: tuple[str, ...] = ()
    refusal: str | None = None

    def finish(self, reply: ChatReply, now: float) -> ChatReply:
        return replace(
            reply,
            tries=self.tries,
            tries_ms=tuple(self.tries_ms),
            queue_ms=self.queue_s * 1000,
            answer_ms=None if reply.error else self.answer_s * 1000,
            pause_ms=self.pause_s * 1000,
            total_ms=(now - self.started_at) * 1000,
            spent=self.spent,
            adjustments=self.adjustments,
        )


@dataclass(frozen=True, slots=True)
class _Lesson:
    """This try taught what the endpoint refuses: the next one does without."""

    name: str


class ChatClient:
    """A `Call` on one endpoint. May be used from several tasks, threads and event loops, one after another or at once.

    `holder` names this client to the limiter. Making one raises `UsageError` where a key is needed and there is none;
    calling it raises `BudgetSpent` and `RunStopped` (from the limiter). All that happens on the wire is in the reply.
    """

    def __init__(  # noqa: PLR0913, PLR0917  all but two have defaults
        self,
        endpoint: Endpoint,
        limiter: Limiter,
        settings: CallSettings | None = None,
        prices: Mapping[str, Price] = PRICES,
        holder: str = "",
        wire: Wire = CHAT,
    ) -> None:
        endpoint.read_key()
        self._endpoint = endpoint
        self._limiter = limiter
        self._settings = settings or CallSettings()
        self._prices = prices
        self._holder = holder
        self._wire = wire
        self._random = random.Random()
        self._lessons: dict[str, frozenset[str]] = {}
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}

    def __repr__(self) -> str:
        return f"ChatClient({self._endpoint.base_url})"

    async def __call__(self, request: ChatRequest, /) -> ChatReply:
        """Send `request` until there is an answer, no hope, or no try left."""
        course = _Course(time.monotonic())
        while True:
            attempt = await self._try(request, course)
            if isinstance(attempt, ChatReply):
                return course.finish(attempt, time.monotonic())
            if isinstance(attempt, _Lesson):
                continue
            course.failures += 1
            if not attempt.retry or self._has_had_enough(course):
                error = CallError(attempt.kind, attempt.message)
                return course.finish(ChatReply(None, error=error), time.monotonic())
            await self._pause(attempt, course)

    async def close(self) -> None:
        """Close this event loop's connections (they are closed with the loop, if it ends by `asyncio.run`)."""
        connection = self._connections.get(asyncio.get_running_loop())
        if connection is not None:
            await connection.close()

    def _has_had_enough(self, course: _Course) -> bool:
        settings = self._settings
        return course.failures >= settings.tries or time.monotonic() - course.started_at >= settings.patience_s

    async def _try(self, request: ChatRequest, course: _Course) -> ChatReply | Failure | _Lesson:
        queued_at = time.monotonic()
        order = self._order(request)
        permit = await self._limiter.acquire(order)
        course.queue_s += time.monotonic() - queued_at
        outcome = Outcome("unsent")
        try:
            body = self._wire.build(request, self._known(request.model) | permit.lessons)
            course.adjustments = body.adjustments
            refused = self._required_but_refused(body, course)
            if refused is not None:
                return refused
            connection = await self._connection()
            await give_notice(course.tries + 1, course.spent + order.estimate)
            outcome = Outcome("failed")
            attempt, outcome = self._judge(request, body, await self._timed_send(connection, body, course), course)
            course.spent += order.estimate if outcome.spent is None else outcome.spent
            return attempt
        finally:
            await self._limiter.settle(permit, outcome)

    async def _timed_send(self, connection: _Connection, body: Body, course: _Course) -> ChatReply | Failure:
        course.tries += 1
        sent_at = time.monotonic()
        attempt = await connection.send(self._wire, body, self._settings.time_limit_s)
        course.answer_s = time.monotonic() - sent_at
        course.tries_ms.append(course.answer_s * 1000)
        return attempt

    def _judge(
        self, request: ChatRequest, body: Body, attempt: ChatReply | Failure, course: _Course
    ) -> tuple[ChatReply | Failure | _Lesson, Outcome]:
        """What to make of a try, and what the limiter is told of it."""
        if isinstance(attempt, ChatReply):
            return self._priced(request.model, attempt)
        lesson = learn(attempt.status, attempt.param, attempt.message, body)
        if lesson is not None:
            self._lessons[request.model] = self._known(request.model) | {lesson}
            course.refusal = attempt.message
            return _Lesson(lesson), Outcome("failed", Spending(calls=1), lesson=lesson)
        spent = None if attempt.may_have_cost else Spending(calls=1)
        kind = "failed" if attempt.kind in self._settings.mendable else _outcome_kind(attempt)
        return attempt, Outcome(kind, spent, attempt.retry_after_s, attempt.message)

    def _priced(self, model: str, reply: ChatReply) -> tuple[ChatReply, Outcome]:
        if reply.tokens_in is None or reply.tokens_out is None:
            return reply, Outcome("answered")
        price = find_price(self._prices, model)
        tokens = reply.tokens_in + reply.tokens_out
        if price is None:
            return reply, Outcome("answered", Spending(1, tokens))
        cost = price.cost_usd(reply.tokens_in, reply.tokens_out, reply.tokens_cached or 0)
        return replace(reply, cost_usd=cost), Outcome("answered", Spending(1, tokens, cost))

    def _order(self, request: ChatRequest) -> Order:
        tokens_in, tokens_out = estimate_tokens(request, self._settings.reply_tokens)
        price = find_price(self._prices, request.model)
        usd = 0.0 if price is None else price.cost_usd(tokens_in, tokens_out)
        lane = self._endpoint.lane(request.model)
        return Order(lane, Spending(1, tokens_in + tokens_out, usd), self._settings.time_limit_s, self._holder)

    def _known(self, model: str) -> frozenset[str]:
        return self._lessons.get(model, frozenset())

    def _required_but_refused(self, body: Body, course: _Course) -> Failure | None:
        for change in body.adjustments:
            name = change.removeprefix("-").partition("->")[0]
            if name in self._settings.required:
                words = f": {course.refusal}" if course.refusal else ""
                return Failure(f"{name}_refused", f"the endpoint refuses {name}{words}", retry=False)
        return None

    async def _pause(self, failure: Failure, course: _Course) -> None:
        """Back off, doubling and with jitter; a Retry-After is waited for in full, up to the cap."""
        settings = self._settings
        own = min(settings.pause_cap_s, settings.pause_s * 2.0 ** (course.failures - 1)) * self._random.uniform(0.5, 1)
        asked = min(failure.retry_after_s or 0.0, settings.retry_after_cap_s)
        paused_at = time.monotonic()
        await asyncio.sleep(asked + own)
        course.pause_s += time.monotonic() - paused_at

    async def _connection(self) -> _Connection:
        """This event loop's own: a connection that was made in another loop is of no use in this one."""
        loop = asyncio.get_running_loop()
        for dead in [other for other in self._connections if other.is_closed()]:
            self._connections.pop(dead, None)
        if loop not in self._connections:
            self._connections[loop] = _Connection(self._endpoint, lambda: self._connections.pop(loop, None))
            await self._connections[loop].open()
        return self._connections[loop]


class _Connection:
    """The package's client, bound to the event loop that it is made in and closed with it.

    It lives until then, whoever forgets it: sockets that are collected as garbage are not closed in good order.
    """

    def __init__(self, endpoint: Endpoint, on_close: Callable[[], object]) -> None:
        self._endpoint = endpoint
        self._on_close = on_close
        self._client = openai.AsyncOpenAI(
            api_key=self._give_key,
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=None,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=not endpoint.is_loopback, timeout=None),
        )
        self._guard = self._until_loop_ends()

    async def open(self) -> None:
        await anext(self._guard)

    async def close(self) -> None:
        await self._guard.aclose()

    async def send(self, wire: Wire, body: Body, limit_s: float) -> ChatReply | Failure:
        """One request, ended after `limit_s` whatever the server does."""
        options: Any = {"headers": _RAW}
        try:
            async with asyncio.timeout(limit_s):
                raw: Any = await self._client.post(wire.path, cast_to=object, body=body.fields, options=options)
                return _read(wire, raw.text, raw.headers, self._endpoint.read_key())
        except TimeoutError:
            return timeout_failure(limit_s)
        except openai.OpenAIError as error:
            return _failure(error, self._endpoint.read_key())

    async def _give_key(self) -> str:
        return self._endpoint.read_key()

    async def _until_loop_ends(self) -> AsyncGenerator[None, None]:
        """`asyncio.run` ends the generators under way before it closes its loop: this one then closes the sockets."""
        _OPEN.add(self)
        try:
            yield
        finally:
            _OPEN.discard(self)
            self._on_close()
            await self._client.close()


def _read(wire: Wire, text: str, headers: Mapping[str, str], key: str) -> ChatReply | Failure:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return bad_reply_failure(f"the reply is not JSON: {text[:80]!r}", key)
    return wire.read(data, headers, key)


def _failure(error: openai.OpenAIError, key: str) -> Failure:
    if isinstance(error, openai.APIStatusError):
        return status_failure(error.status_code, error.response.headers, error.body, key)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        name = type(cause).__name__
        return connection_failure(f"{name}: {cause}", key, sent=not name.startswith("Connect"))
    return bad_reply_failure(f"{type(error).__name__}: {error}", key)


def _outcome_kind(failure: Failure) -> OutcomeKind:
    if failure.fatal:
        return "fatal"
    return "throttled" if failure.overloaded else "failed"
