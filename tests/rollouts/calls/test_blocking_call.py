"""Calls from code without an event loop."""

from __future__ import annotations

import threading

import pytest

from rollouts.calls.blocking_call import BlockingCall
from rollouts.calls.chat import ChatClient
from rollouts.calls.chat_records import ChatMessage, ChatRequest
from rollouts.calls.endpoint import Endpoint
from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Budget, Limits
from rollouts.errors import BudgetSpent

ASK = ChatRequest("m", (ChatMessage("user", "which way?"),))


def test_calls_share_one_connection_until_the_end() -> None:
    with FakeEndpoint() as fake:
        with BlockingCall(ChatClient(Endpoint(fake.base_url), LocalLimiter(Limits()))) as call:
            assert [call(ASK).content for _ in range(3)] == ["OK"] * 3
            assert fake.connections == 1
        assert fake.wait_until(lambda: fake.connections == 0)
        call.close()


def test_errors_of_the_call_are_raised_here() -> None:
    limits = Limits(budget=Budget(calls=1))
    with FakeEndpoint() as fake, BlockingCall(ChatClient(Endpoint(fake.base_url), LocalLimiter(limits))) as call:
        assert call(ASK).error is None
        with pytest.raises(BudgetSpent, match="budget of 1 call"):
            call(ASK)


def test_several_threads_ask_at_once() -> None:
    replies: list[str | None] = []
    with (
        FakeEndpoint(delay_s=0.05) as fake,
        BlockingCall(ChatClient(Endpoint(fake.base_url), LocalLimiter(Limits(in_flight=3)))) as call,
    ):
        threads = [threading.Thread(target=lambda: replies.append(call(ASK).content)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert fake.most_in_flight == 3
    assert replies == ["OK"] * 6


def test_closing_ends_what_is_under_way() -> None:
    with FakeEndpoint(delay_s=30) as fake:
        call = BlockingCall(ChatClient(Endpoint(fake.base_url), LocalLimiter(Limits())))
        failed: list[BaseException] = []

        def ask() -> None:
            try:
                call(ASK)
            except BaseException as error:  # noqa: BLE001 (whatever it is, it must end the wait)
                failed.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert fake.wait_until(lambda: fake.in_flight == 1)
        call.close()
        thread.join(timeout=5)
        assert len(failed) == 1
