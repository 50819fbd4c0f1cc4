"""What a row of `calls` keeps of a reply, or of a request without one, whoever asked."""

from __future__ import annotations

from typing import Any

from rollouts.calls.chat_records import ChatReply
from rollouts.calls.limits import Spending

_KEPT = (
    *("content", "reasoning", "refusal", "finish_reason", "system_fingerprint", "request_id"),
    *("tokens_in", "tokens_out", "tokens_cached", "queue_ms", "answer_ms", "pause_ms", "total_ms", "cost_usd"),
)


def reply_columns(reply: ChatReply) -> dict[str, Any]:
    """Text, tokens, times, cost, and the error where there was one."""
    return {
        "error_kind": reply.error.kind if reply.error else None,
        "error": reply.error.message if reply.error else None,
        **{name: getattr(reply, name) for name in _KEPT},
        **(_counted(reply.spent) if reply.spent else {}),
        "tries_ms": list(reply.tries_ms),
        "adjustments": list(reply.adjustments),
    }


def abandoned_columns(tries: int, spent: Spending) -> dict[str, Any]:
    """Of a request that was sent `tries` times and whose reply nobody waited for: no one knows what it cost, so it
    counts as much as was set aside for it."""
    return {"validated": False, "status": "abandoned", "tries": tries, **_counted(spent)}


def _counted(spent: Spending) -> dict[str, Any]:
    return {"budget_tokens": spent.tokens, "budget_usd": spent.usd}
