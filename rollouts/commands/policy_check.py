"""Asks each model that is to play one small question before anything is started: is it there, does it take the key, is
there such a model, does it give log-probabilities, does it take pictures?
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from rollouts.calls.chat_records import CallError, ChatReply, ChatRequest
from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Limits, Spending
from rollouts.commands.preparing import Prepared
from rollouts.errors import BudgetSpent, RunStopped, TryVoid, UsageError
from rollouts.policies.base import AsksModel
from rollouts.policies.model_answers import out_of_schema
from rollouts.policies.registry import make_policy, nested
from rollouts.policies.reply_rules import SchemaError
from rollouts.policy_calls import CallLog, CallOrder, calls_id
from rollouts.records import PolicyDescription, Unit
from rollouts.settings import flag

PATIENCE_S = 90.0
"""When no further try begins. The first question may have to wait for a model to be loaded."""
TRANSIENT = frozenset({"rate_limited", "http_425", "http_503", "http_529"})
"""The endpoint itself says that it is only busy, or not ready yet."""


@dataclass(frozen=True)
class Checked:
    """A question that was asked ahead of the run, and what came of it. `remark`: what a person should know of it, where
    it did not go well and the run starts all the same."""

    who: PolicyDescription
    request: ChatRequest
    reply: ChatReply
    remark: str | None = None


def check_models(prepared: Prepared, limits: Limits) -> tuple[Checked, ...]:
    """The calls that it took; they count as the run's. `limits` are the run's, with what it has spent.

    Errors: `UsageError` naming the policy, the endpoint's URL and what it said, where there is no answer after the
    usual tries. One that says that it is busy may be fine in a minute, and a spent budget is for the run to tell.
    """
    order = prepared.order.calls
    if order is None:
        return ()
    order.endpoint.check_listens()
    found: list[Checked] = []
    for spec, who in prepared.facts.descriptions.items():
        config = prepared.config
        policy = make_policy(nested(spec)[-1], config.resolved()[0], settings=config.model_settings)
        if isinstance(policy, AsksModel):
            found += _check(policy, who, order, limits)
    return tuple(found)


def spending_of(checked: tuple[Checked, ...]) -> Spending:
    """What the questions have cost."""
    return sum((one.reply.spent or Spending() for one in checked), start=Spending())


def keep(checked: tuple[Checked, ...], log: CallLog, unit: Unit, attempt: str) -> None:
    """Put the questions on file, beside the calls of the first unit that is owed."""
    for number, one in enumerate(checked):
        log.begin(calls_id(one.who), unit, f"{attempt}-check-{number}")
        log.episode(unit.keys()[0])
        log.add(one.request, one.reply)


def _check(policy: AsksModel, who: PolicyDescription, order: CallOrder, limits: Limits) -> list[Checked]:
    request = policy.example(None, "This is a test of the connection.", 0)
    try:
        replies = asyncio.run(_ask(policy, order, limits, request))
        remark = _judge(policy, replies[-1], who.name, order.endpoint.base_url)
    except RunStopped as hopeless:
        raise UsageError(str(hopeless)) from None
    except BudgetSpent:
        return []
    *before, last = (Checked(who, request, reply) for reply in replies)
    return [*before, replace(last, remark=remark)]


def _judge(policy: AsksModel, reply: ChatReply, name: str, where: str) -> str | None:
    """A remark, or nothing. Raises `RunStopped` or `UsageError` where the same would befall every decision."""
    if reply.error is not None:
        return _judge_failure(reply.error, reply.tries, name, where)
    cause = policy.check(reply, where)
    if cause is None:
        return None
    if _is_void(reply):
        raise UsageError(f"policy {name} at {where}: the reply to a first question has no choices, and so once more")
    return (
        f"policy {name} at {where}: no answer in the reply to a first question ({cause}, finish reason "
        f"{reply.finish_reason}); the run starts all the same"
    )


def _judge_failure(error: CallError, tries: int, name: str, where: str) -> str | None:
    told = f"policy {name} at {where}"
    try:
        cause = out_of_schema(error, f"policy {name}", where)
    except TryVoid:
        cause = None
    if error.kind in TRANSIENT or cause is SchemaError.REFUSED:
        return f"{told}: a first question got no answer ({error.message}); the run starts all the same"
    longer = f"; {flag('request_timeout_s')} gives it longer" if cause is SchemaError.TIMEOUT else ""
    raise UsageError(f"{told}: {error.message}{f' ({tries} tries)' if tries > 1 else ''}{longer}")


def _is_void(reply: ChatReply) -> bool:
    """Whether the endpoint gave no choice at all, as one does that fails and says 200."""
    return (reply.content, reply.refusal, reply.reasoning, reply.finish_reason) == (None, None, None, None)


async def _ask(policy: AsksModel, order: CallOrder, limits: Limits, request: ChatRequest) -> list[ChatReply]:
    """The reply; after one without any choice, which no client repeats by itself, a second."""
    from rollouts.calls.chat import ChatClient  # noqa: PLC0415  half a second that runs without a model need not wait
    from rollouts.calls.wire import WIRES  # noqa: PLC0415

    settings = replace(order.settings, patience_s=PATIENCE_S)
    client = ChatClient(order.endpoint, LocalLimiter(limits), settings, order.prices, "check", WIRES[policy.wire])
    first = await client(request)
    return [first, await client(request)] if first.error is None and _is_void(first) else [first]
