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

TRIES = 2


@dataclass(frozen=True)
class Checked:
    """A question that was asked ahead of the run, and what came of it."""

    who: PolicyDescription
    request: ChatRequest
    reply: ChatReply


def check_models(prepared: Prepared, limits: Limits) -> tuple[Checked, ...]:
    """The calls that it took; they count as the run's. `limits` are the run's, with what it has spent.

    Errors: `UsageError` naming the policy, the endpoint's URL and what it said. An endpoint that is slow or overloaded
    may be fine in a minute, and a spent budget is for the run to tell.
    """
    order = prepared.order.calls
    if order is None:
        return ()
    order.endpoint.check_listens()
    found = []
    for spec, who in prepared.facts.descriptions.items():
        config = prepared.config
        policy = make_policy(nested(spec)[-1], config.resolved()[0], settings=config.model_settings)
        if isinstance(policy, AsksModel):
            checked = _check(policy, who, order, limits)
            found += [checked] if checked else []
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


def _check(policy: AsksModel, who: PolicyDescription, order: CallOrder, limits: Limits) -> Checked | None:
    request = policy.example(None, "This is a test of the connection.", 0)
    where = order.endpoint.base_url
    try:
        reply = asyncio.run(_ask(policy, order, limits, request))
        if reply.error is not None:
            _judge(reply.error, who, where)
        else:
            policy.check(reply, where)
    except RunStopped as hopeless:
        raise UsageError(str(hopeless)) from None
    except BudgetSpent:
        return None
    return Checked(who, request, reply)


def _judge(error: CallError, who: PolicyDescription, where: str) -> None:
    """Raises `RunStopped` or `UsageError` where the same would befall every decision."""
    try:
        cause = out_of_schema(error, f"policy {who.name}", where)
    except TryVoid as gone:
        if error.kind == "connection":
            raise UsageError(str(gone)) from None
        return
    if cause is SchemaError.ENDPOINT:
        raise UsageError(f"policy {who.name} at {where}: {error.message}")


async def _ask(policy: AsksModel, order: CallOrder, limits: Limits, request: ChatRequest) -> ChatReply:
    from rollouts.calls.chat import ChatClient  # noqa: PLC0415  half a second that runs without a model need not wait
    from rollouts.calls.wire import WIRES  # noqa: PLC0415

    settings = replace(order.settings, tries=min(TRIES, order.settings.tries))
    client = ChatClient(order.endpoint, LocalLimiter(limits), settings, order.prices, "check", WIRES[policy.wire])
    return await client(request)
