"""Offload entries: what an agent's memory keeps in place of a tool call and its result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from grading.pairs import ToolPair
from grading.replies import EntryReply
from grading.task_summary import StandIn
from grading.text import as_text, cut_within
from rollouts.calls.replies import Cause

TOOL_CALL_LIMIT = 150
SUMMARY_LIMIT = 200
MARK_ABOVE = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """`tool_call_id` and `timestamp` are the pair's own, byte for byte; `score` is 0-10, None where `degraded`.

    A degraded entry carries the beginning of the result itself and the `cause` of the last try.
    """

    tool_call_id: str
    timestamp: str
    tool_call: str
    summary: str
    score: float | None
    status: Literal["ok", "degraded"] = "ok"
    cause: Cause | None = None
    flags: tuple[str, ...] = ()


def needs_compress(pair: ToolPair) -> bool:
    """Whether `name(params)`, before any cut, is too long to keep as it is."""
    return len(pair.call) > MARK_ABOVE


def too_long(pair: ToolPair, reply: EntryReply) -> str | None:
    """Which text of a valid reply is over its limit, and by how much; None if none is."""
    if needs_compress(pair) and len(reply.tool_call) > TOOL_CALL_LIMIT:
        return f"tool_call has {len(reply.tool_call)} characters, at most {TOOL_CALL_LIMIT}"
    if len(reply.summary) > SUMMARY_LIMIT:
        return f"summary has {len(reply.summary)} characters, at most {SUMMARY_LIMIT}"
    return None


def finished(pair: ToolPair, reply: EntryReply, flags: tuple[str, ...] = ()) -> Entry:
    """The entry of a valid reply; what is over its limit is cut with a mark and flagged."""
    marked = needs_compress(pair)
    tool_call = cut_within(reply.tool_call, TOOL_CALL_LIMIT) if marked else pair.call
    summary = cut_within(reply.summary, SUMMARY_LIMIT)
    cuts = (("tool_call_cut", marked and tool_call != reply.tool_call), ("summary_cut", summary != reply.summary))
    told = (*flags, *reply.flags, *(name for name, happened in cuts if happened))
    return Entry(pair.id, pair.timestamp, tool_call, summary, reply.score, flags=told)


def degraded(pair: ToolPair, cause: Cause | None) -> Entry:
    """The entry of a pair that got no usable answer: its truncated result, without a score."""
    tool_call = cut_within(pair.call, TOOL_CALL_LIMIT) if needs_compress(pair) else pair.call
    summary = cut_within(as_text(pair.result), SUMMARY_LIMIT)
    return Entry(pair.id, pair.timestamp, tool_call, summary, None, "degraded", cause)


def stand_ins(entries: Iterable[Entry]) -> dict[str, StandIn]:
    """The scored entries by id, for a grader that reads summaries."""
    scored = ((e, e.score) for e in entries if e.score is not None)
    return {e.tool_call_id: StandIn(e.tool_call, e.summary, score) for e, score in scored}


def scores_by_tick(entries: Iterable[Entry]) -> dict[int, float]:
    """The scores of an episode's entries by the first tick of their span, for the credit rule `summary`."""
    scored = ((e.tool_call_id, e.score) for e in entries if e.score is not None)
    return {int(key.rpartition(":")[2]): score for key, score in scored}
