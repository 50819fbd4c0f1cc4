"""Grades, entries, credit and judged calls as rows of the side tables, and back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from grading.credit import CreditRow
from grading.entries import Entry
from grading.grade import Grade, Weights
from grading.judged import JudgedCall
from grading.order import GradingOrder
from grading.task_summary import Cuts
from grading.transcript import Span
from rollouts.calls.chat_records import CallError, ChatReply, ChatRequest
from rollouts.calls.limits import Spending
from rollouts.calls.replies import Cause
from rollouts.prompt_files import PromptRef
from rollouts.records import EpisodeKey, Unit
from rollouts.shards.call_rows import abandoned_columns, reply_columns
from rollouts.shards.side_rows import episode_columns

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes the rows of one unit. `now` says what time it is."""

    run_id: str
    unit: Unit
    now: Callable[[], datetime]

    def key(self, key: EpisodeKey) -> Row:
        return {**episode_columns(self.run_id, key), "unit": self.unit.number}

    def grade(self, key: EpisodeKey, grade: Grade, grader_id: str, **columns: Any) -> Row:
        """A row of `grades`; `columns` are grading, repeat, call_id and what is said of feedback."""
        return {
            **self.key(key),
            **columns,
            **_prompt(grade.prompt),
            "source": grade.source,
            "grader_id": grader_id,
            "status": grade.status,
            "cause": _text(grade.cause),
            "detail": grade.detail,
            "goal_achievement": grade.goal_achievement,
            "process_quality": grade.process_quality,
            "user_satisfaction": grade.user_satisfaction,
            "label": grade.label,
            "reason": grade.reason,
            "flags": list(grade.flags),
            "cut": grade.cuts.to_json(),
            "model": grade.model,
            "n_calls": len(grade.calls),
            "graded_at": self.now(),
        }

    def entry(self, key: EpisodeKey, span: Span, entry: Entry, by: PromptRef, /, **columns: Any) -> Row:
        """A row of `summaries`: the entry of a span; `columns` are span (its number) and summarizer_id."""
        return {
            **self.key(key),
            **columns,
            **_prompt(by),
            "first_tick": span.first.tick,
            "decisions": len(span.steps),
            "source": "llm",
            "tool_call_id": entry.tool_call_id,
            "timestamp": entry.timestamp,
            "tool_call": entry.tool_call,
            "summary": entry.summary,
            "score": entry.score,
            "status": entry.status,
            "cause": _text(entry.cause),
            "flags": list(entry.flags),
            "summarized_at": self.now(),
        }

    def credit(
        self, key: EpisodeKey, rows: Sequence[CreditRow], graded: Row, r: float, order: GradingOrder
    ) -> list[Row]:
        """The rows of `credit` of one episode, for its grade `graded`."""
        assert order.credit is not None
        weights = None if order.source == "explicit" else order.weights
        of_all = {
            **self.key(key),
            "grading": graded["grading"],
            "repeat": graded["repeat"],
            "source": order.source,
            "credit_id": order.credit_id,
            "grader_id": order.grader_id,
            "rule": str(order.credit.rule),
            "gamma": order.credit.gamma,
            **_weights(weights),
            "r": r,
        }
        return [{**of_all, "tick": row.tick, "alpha": row.alpha, "value": row.value} for row in rows]

    def call(self, key: EpisodeKey, judged: JudgedCall, **columns: Any) -> Row:
        """A row of `calls`; `columns` are call_id, kind, who and reused_call_id. A reused reply cost nothing now."""
        reply = judged.reply
        row = {
            **self._asked(key, judged.request),
            **columns,
            "validated": judged.validated,
            "status": "failed" if reply.error else "validated" if judged.validated else "refused",
            "cause": _text(judged.cause),
            "detail": judged.detail,
            "model": reply.model,
            "tries": 0 if reply.reused else reply.tries,
            "ended_at": self.now(),
        }
        return row if reply.reused else {**row, **reply_columns(reply)}

    def sent(self, key: EpisodeKey, request: ChatRequest, tries: int, spent: Spending, /, **columns: Any) -> Row:
        """A row of `calls` for a request that goes out for the `tries`-th time: all that is known of it until it is
        judged, and for ever where nobody is left to hear the reply; it counts as `spent`. `columns` are call_id, kind
        and who."""
        return {**self._asked(key, request), **columns, **abandoned_columns(tries, spent), "ended_at": self.now()}

    def _asked(self, key: EpisodeKey, request: ChatRequest) -> Row:
        return {
            **self.key(key),
            "request_sha256": request.key(),
            "grading": request.grading,
            "repeat": request.repeat,
            "requested_model": request.model,
        }


_READ = ("content", "reasoning", "refusal", "finish_reason", "model", "system_fingerprint", "request_id")
GRADE_COLUMNS = (
    *("episode_id", "grading", "repeat", "source", "status", "cause", "detail", "goal_achievement", "process_quality"),
    *("user_satisfaction", "label", "reason", "flags", "cut", "model", "feedback_sha256", "graded_at"),
)
ENTRY_COLUMNS = (
    *("episode_id", "span", "tool_call_id", "timestamp", "tool_call", "summary", "score", "status", "cause"),
    "summarized_at",
)


def reply_of(row: Mapping[str, Any]) -> ChatReply:
    """The stored reply of a call, to be used again: without tries, tokens, times and cost, for it costs nothing now."""
    error = CallError(row["error_kind"], row["error"] or "") if row["error_kind"] else None
    return ChatReply(**{name: row[name] for name in _READ}, error=error, tries=0, reused=True)


def grade_of(row: Mapping[str, Any]) -> Grade:
    """A grade as its row (GRADE_COLUMNS) has it, without prompt and calls."""
    return Grade(
        source=row["source"],
        status=row["status"],
        goal_achievement=row["goal_achievement"],
        process_quality=row["process_quality"],
        user_satisfaction=row["user_satisfaction"],
        label=row["label"],
        reason=row["reason"],
        cause=Cause(row["cause"]) if row["cause"] else None,
        detail=row["detail"],
        flags=tuple(row["flags"] or ()),
        cuts=Cuts.from_json(row["cut"]),
        model=row["model"],
    )


def entry_of(row: Mapping[str, Any]) -> Entry:
    """An entry as its row (ENTRY_COLUMNS) has it, without flags."""
    texts = (row["tool_call_id"], row["timestamp"], row["tool_call"], row["summary"])
    return Entry(*texts, row["score"], row["status"], Cause(row["cause"]) if row["cause"] else None)


def entries_by_episode(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Entry]]:
    """Episode id → its entries that count, span by span."""
    found: dict[str, list[Entry]] = {}
    for row in sorted(newest_entries(rows).values(), key=lambda row: int(row["span"])):
        found.setdefault(row["episode_id"], []).append(entry_of(row))
    return found


def newest_entries(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], Mapping[str, Any]]:
    """(episode id, span) → the row that counts: the last of `rows`, which come part by part."""
    return {(row["episode_id"], row["span"]): row for row in rows}


def newest_grades(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], Mapping[str, Any]]:
    """(episode id, repeat) → the row with the highest grading: the one that counts."""
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["episode_id"], row["repeat"])
        if key not in found or row["grading"] > found[key]["grading"]:
            found[key] = row
    return found


def _prompt(ref: PromptRef | None) -> Row:
    if ref is None:
        return {}
    return {
        "language": ref.language,
        "prompt_id": ref.id,
        "prompt_version": ref.version,
        "prompt_sha256": ref.sha256,
    }


def _weights(weights: Weights | None) -> Row:
    names = ("goal", "process", "satisfaction")
    return {f"weight_{name}": None if weights is None else getattr(weights, name) for name in names}


def _text(cause: Cause | None) -> str | None:
    return None if cause is None else cause.value
