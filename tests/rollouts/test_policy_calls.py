"""The calls of policies on file: each at once, then as a shard beside the unit; and waiting that is no hang."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollouts.calls.chat_records import ChatMessage, ChatRequest
from rollouts.calls.endpoint import CallSettings, Endpoint
from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import FakeReply, FakeRequest, completion
from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Budget, Limits, Spending
from rollouts.calls.prices import Price
from rollouts.errors import BudgetSpent
from rollouts.policy_calls import CallLog, CallOrder, PolicyCalls, calls_id
from rollouts.records import PlannedEpisode, PolicyDescription, SideReport, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.store.storage import LocalStorage

UNIT = Unit(0, "defend_the_center", "rule", "chat:m", (PlannedEpisode(7, 0),))
ASKED = ChatRequest("m", (ChatMessage("user", "?"),))
WHO = PolicyDescription("chat:m", "model", "m", "openai-compatible", settings={"observe": "text"})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(LocalStorage(tmp_path), "r")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    with FakeEndpoint(lambda _request: completion("attack", usage=usage)) as fake:
        yield fake


def opened(fake: FakeEndpoint, log: CallLog) -> PolicyCalls:
    order = CallOrder(Endpoint(fake.base_url), CallSettings(), {"m": Price(1.0, 2.0)})
    return PolicyCalls(order, LocalLimiter(Limits()), "me", log)


def test_a_call_is_on_file_before_it_is_answered_and_in_a_shard_after_the_unit(
    folder: RunFolder, fake: FakeEndpoint, tmp_path: Path
) -> None:
    side, who = SideFolder(folder), calls_id(WHO)
    log = CallLog(folder)
    log.begin(who, UNIT, "a")
    log.episode(UNIT.keys()[0])
    call = opened(fake, log).open("chat")
    call(ASKED)
    (row,) = side.journal.read(who, UNIT)
    assert (row["kind"], row["status"], row["episode_id"]) == ("decide", "answered", UNIT.keys()[0].episode_id)
    assert (row["tokens_in"], row["tokens_out"], row["cost_usd"]) == (10, 2, pytest.approx(14e-6))
    call(ASKED)
    call.close()
    shard, counts = log.stage(tmp_path)
    assert shard is not None
    assert (shard.table, shard.id, shard.file.rows, counts.requests, counts.tokens_in) == ("calls", who, 2, 2, 20)
    lease = folder.acquire()
    with pytest.raises(Exception, match="another driver"):
        side.promote(lease, SideReport(0, "a", (shard,), (None,)))
    side.gather(lease)
    assert side.spent() == Spending(2, 24, pytest.approx(28e-6))
    folder.finish(lease)


def test_a_call_that_ends_without_a_reply_is_on_file_with_all_its_requests(folder: RunFolder, tmp_path: Path) -> None:
    """Its third try is more than the budget holds: two requests were sent."""
    side, who = SideFolder(folder), calls_id(WHO)
    log = CallLog(folder)
    log.begin(who, UNIT, "a")
    log.episode(UNIT.keys()[0])
    sent: list[tuple[str, int]] = []

    def look(_request: FakeRequest) -> FakeReply:
        sent.extend((row["status"], row["tries"]) for row in side.journal.read(who, UNIT))
        return FakeReply(503, b"overloaded")

    limits = Limits(budget=Budget(calls=2), pause_s=0.01)
    with FakeEndpoint(look) as busy:
        order = CallOrder(Endpoint(busy.base_url), CallSettings(pause_s=0.01), {})
        call = PolicyCalls(order, LocalLimiter(limits), "me", log).open("chat")
        with pytest.raises(BudgetSpent):
            call(ASKED)
        call.close()
    assert sent == [("abandoned", 1), ("abandoned", 2)]
    shard, counts = log.stage(tmp_path)
    assert shard is not None
    assert (counts.calls, counts.requests, counts.tokens_in) == (1, 2, 0)


def test_waiting_for_a_model_is_a_sign_of_life(folder: RunFolder, fake: FakeEndpoint) -> None:
    answer = threading.Event()

    def held(_request: FakeRequest) -> None:
        answer.wait(5)

    log = CallLog(folder)
    log.begin(calls_id(WHO), UNIT, "a")
    log.episode(UNIT.keys()[0])
    with FakeEndpoint(held) as slow:
        call = opened(slow, log).open("chat")
        before = [log.pulse for _ in range(3)]
        asking = threading.Thread(target=call, args=(ASKED,))
        asking.start()
        assert slow.wait_until(lambda: bool(slow.requests))
        meanwhile = [log.pulse for _ in range(3)]
        answer.set()
        asking.join()
        call.close()
    after = [log.pulse for _ in range(3)]
    assert len(set(before)) == 1
    assert meanwhile == sorted(set(meanwhile))
    assert len(set(after)) == 1


def test_other_settings_are_another_caller() -> None:
    other = PolicyDescription("chat:m", "model", "m", "openai-compatible", settings={"observe": "frame"})
    assert calls_id(WHO) != calls_id(other)
