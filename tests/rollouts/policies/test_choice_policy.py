"""The decision endpoint: what goes there, and what its answers become. Real HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import FakeReply, broken, decision, failing
from rollouts.errors import RunStopped, TryVoid
from rollouts.policies.base import PolicyContext
from rollouts.policies.choice import ChoicePolicy
from rollouts.policies.model_settings import ModelSettings
from rollouts.records import Answer
from rollouts.scenarios.registry import SCENARIOS
from tests.model_calls import KEY, OPTIONS, SWIFT, Calls, seen

Ask = Callable[..., tuple[Answer, FakeEndpoint]]


@pytest.fixture
def ask() -> Iterator[Ask]:
    with ExitStack() as stack:

        def decide(reply: FakeReply | None = None, **settings: bool) -> tuple[Answer, FakeEndpoint]:
            fake = stack.enter_context(FakeEndpoint(lambda _request: reply))
            silent = reply is not None and reply.fault == "silence"
            swift = SWIFT.__class__(time_limit_s=0.3 if silent else 30.0, tries=1)
            context = PolicyContext(
                SCENARIOS["defend_the_center"],
                "laya",
                settings=ModelSettings(**settings),
                calls=Calls(fake.base_url, swift),
            )
            policy = ChoicePolicy(context)
            stack.callback(policy.close)
            policy.reset(KEY, np.random.default_rng(3))
            return policy.act(seen(0), "A monster.", OPTIONS, "Shoot."), fake

        yield decide


def test_the_request_and_the_answer(ask: Ask) -> None:
    answer, fake = ask(decision("turn left", {"turn left": 0.7, "attack": 0.2, "jump": 0.1}, 0.8))
    (request,) = fake.requests
    assert request.path == "/v1/systemone"
    assert request.body == {
        "state": "A monster.",
        "instructions": "Shoot.",
        "questions": {"decision": {"type": "choice", "options": list(OPTIONS)}},
    }
    assert (answer.choice, answer.confidence, answer.parse_rule) == ("turn left", 0.8, "exact")
    assert list(answer.probabilities.items()) == [("attack", 0.2), ("turn left", 0.7)]
    assert json.loads(answer.messages or "") == request.body
    assert json.loads(answer.raw_reply or "")["choice"] == "turn left"
    assert answer.latency_ms is not None


def test_a_list_of_probabilities_stands_in_the_order_sent(ask: Ask) -> None:
    answer, fake = ask(decision("attack", [0.5, 0.3, 0.2]), shuffle_options=True)
    sent = fake.requests[0].body["questions"]["decision"]["options"]
    assert answer.options_shown == tuple(sent)
    assert sent != list(OPTIONS)
    assert answer.probabilities == dict(zip(sent, [0.5, 0.3, 0.2], strict=True))
    assert list(answer.probabilities) == list(OPTIONS)


@pytest.mark.parametrize(
    ("reply", "choice", "cause"),
    [
        (decision("Turn Left"), "Turn Left", "not_an_option"),
        (decision(None), None, "empty"),
        (decision(["attack"]), None, "empty"),
        (FakeReply(body={"results": {}}), None, "endpoint"),
        (FakeReply(body=b"oops"), None, "endpoint"),
        (broken("silence"), None, "timeout"),
    ],
)
def test_out_of_schema_is_as_for_chat(ask: Ask, reply: FakeReply, choice: str | None, cause: str) -> None:
    answer, _ = ask(reply)
    assert (answer.choice, answer.cause, answer.parse_rule) == (choice, cause, None)


def test_what_is_no_number_is_no_probability(ask: Ask) -> None:
    answer, _ = ask(decision("attack", {"attack": "0.5", "turn left": True, "turn right": 0.25}, "high"))
    assert (answer.probabilities, answer.confidence) == ({"turn right": 0.25}, None)


@pytest.mark.parametrize(
    ("reply", "kind"), [(failing(401, "bad key"), RunStopped), (failing(503, "overloaded"), TryVoid)]
)
def test_an_endpoint_in_trouble_is_no_answer(ask: Ask, reply: FakeReply, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="choice:laya at http://127"):
        ask(reply)


def test_it_says_who_it_is() -> None:
    who = ChoicePolicy(PolicyContext(SCENARIOS["defend_the_center"])).describe()
    assert (who.name, who.model, who.provider) == ("choice", None, "decision-endpoint")
