"""The call to a model that an order describes, through whatever limiter says when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grading.order import GradingOrder
from rollouts.calls.limits import Limiter
from rollouts.errors import UsageError

if TYPE_CHECKING:
    from rollouts.calls.chat import ChatClient


def open_call(order: GradingOrder, limiter: Limiter, holder: str = "") -> ChatClient:
    """A client of the order's endpoint; `holder` names it to the limiter. Errors: `UsageError` (endpoint, key)."""
    if order.endpoint is None:
        raise UsageError("no endpoint is known: set OPENAI_BASE_URL or --base-url")
    from rollouts.calls.chat import ChatClient  # noqa: PLC0415  half a second that runs without a model need not wait

    return ChatClient(order.endpoint, limiter, order.calls, order.prices, holder)
