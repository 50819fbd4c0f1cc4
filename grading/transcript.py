"""An episode read as a conversation: asks and replies, equal decisions joined into spans. No model is involved.

Knows nothing of Parquet, of prompts or of a particular game. The teacher's actions never enter: a judge must not see
them, and where the agent was not asked (its turn was played for it) the transcript names no action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

COUNTERS = ("health", "ammo", "kills")
STEP_COLUMNS = (
    "episode_id", "tick", "tics", "state", "model_action", "effective_action", "asked", "schema_error", "error",
    "events", "n_visible", "reward", "decided_at", *COUNTERS, *(f"{name}_after" for name in COUNTERS),
)  # fmt: skip
NOT_ASKED = "(the agent was not asked)"
NO_ANSWER = "(no answer)"
TOO_LATE = "too late: the episode was over before anything could be sent"


@dataclass(frozen=True, slots=True)
class TranscriptStep:
    """One decision, as far as grading reads it. `tick` counts from 0; `tics` is its length in engine tics.

    `answer` is the agent's own, `action` what was sent; they differ where `schema_error` names a cause, and nothing was
    sent where the episode was over before the agent, in real time, had thought. `before` and `after` hold the counters
    that the scenario has. `n_visible` is None where nothing was counted.
    """

    tick: int
    state: str
    action: str | None
    answer: str | None = None
    asked: bool = True
    schema_error: str | None = None
    error: str | None = None
    events: tuple[str, ...] = ()
    tics: int = 4
    n_visible: int | None = None
    reward: float = 0.0
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    decided_at: datetime | None = None

    @property
    def reply(self) -> str:
        """The agent's reply as the transcript shows it."""
        if not self.asked:
            return NOT_ASKED
        if self.schema_error is None and self.action is not None:
            return self.action
        return NO_ANSWER if self.answer is None else self.answer


def step_from_row(row: Mapping[str, Any]) -> TranscriptStep:
    """A row of the steps table, read with `STEP_COLUMNS`."""
    return TranscriptStep(
        tick=row["tick"],
        state=row["state"],
        action=row["effective_action"],
        answer=row["model_action"],
        asked=row["asked"],
        schema_error=row["schema_error"],
        error=row["error"],
        events=tuple(row["events"] or ()),
        tics=row["tics"],
        n_visible=row["n_visible"],
        reward=row["reward"] or 0.0,
        before={name: row[name] for name in COUNTERS if row[name] is not None},
        after={name: row[f"{name}_after"] for name in COUNTERS if row[f"{name}_after"] is not None},
        decided_at=row["decided_at"],
    )


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive decisions with the same reply and no event between them; never empty."""

    steps: tuple[TranscriptStep, ...]

    @property
    def first(self) -> TranscriptStep:
        return self.steps[0]

    @property
    def last(self) -> TranscriptStep:
        return self.steps[-1]

    @property
    def events(self) -> tuple[str, ...]:
        """The events of its last decision: an earlier one would have ended the span there."""
        return self.last.events


def spans(steps: Sequence[TranscriptStep]) -> tuple[Span, ...]:
    """`steps` in order, joined. An event ends its span; a decision that failed is a span of its own."""
    groups: list[list[TranscriptStep]] = []
    for step in steps:
        if groups and _joins(groups[-1][-1], step):
            groups[-1].append(step)
        else:
            groups.append([step])
    return tuple(Span(tuple(group)) for group in groups)


def _joins(previous: TranscriptStep, step: TranscriptStep) -> bool:
    quiet = not previous.events and failure(previous) is None and failure(step) is None
    return quiet and previous.reply == step.reply


@dataclass(frozen=True, slots=True)
class HostAgent:
    """Who is being judged. None means that it was not given."""

    name: str
    kind: str | None = None
    model: str | None = None
    provider: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user turn and the agent's reply, given `count` times in a row. `error` says how the reply failed.

    `key` names the tool pair whose summary may stand in for this exchange.
    """

    ask: str
    reply: str
    count: int = 1
    note: str = ""
    events: tuple[str, ...] = ()
    error: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole task. `standing_ask` holds from the first turn to the last (None: there is none).

    `outcome` lists recorded facts by name. `last_ask` and `last_reply` are the very last exchange.
    """

    host: HostAgent
    standing_ask: str | None
    exchanges: tuple[Exchange, ...]
    outcome: tuple[tuple[str, str | int | float | None], ...]
    last_ask: str | None
    last_reply: str | None


def conversation(
    host: HostAgent,
    exchanges: Sequence[Exchange],
    outcome: Sequence[tuple[str, str | int | float | None]] = (),
    standing_ask: str | None = None,
) -> Transcript:
    """Any agent's conversation as a transcript."""
    last = exchanges[-1] if exchanges else None
    return Transcript(
        host=host,
        standing_ask=standing_ask,
        exchanges=tuple(exchanges),
        outcome=tuple(outcome),
        last_ask=last.ask if last else standing_ask,
        last_reply=last.reply if last else None,
    )


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """What is known about a completed episode beside its decisions."""

    episode_id: str
    metric_name: str
    metric: float
    end_reason: str | None
    instructions: str | None
    final_state: str | None = None


def episode_transcript(facts: EpisodeFacts, host: HostAgent, steps: Sequence[TranscriptStep]) -> Transcript:
    """An episode as a conversation: the instructions are the standing ask, then a turn a span.

    The last exchange is the last decision, not the first state of its span.
    """
    last = steps[-1] if steps else None
    return Transcript(
        host=host,
        standing_ask=facts.instructions,
        exchanges=tuple(_exchange(facts.episode_id, span) for span in spans(steps)),
        outcome=_outcome(facts, steps),
        last_ask=last.state if last else facts.instructions,
        last_reply=last.reply if last else None,
    )


def _exchange(episode_id: str, span: Span) -> Exchange:
    first, last = span.first.tick, span.last.tick
    return Exchange(
        ask=span.first.state,
        reply=span.first.reply,
        count=len(span.steps),
        note=f"decision {first}" if first == last else f"decisions {first}-{last}",
        events=span.events,
        error=failure(span.first),
        key=pair_id(episode_id, span),
    )


def pair_id(episode_id: str, span: Span) -> str:
    """`<episode id>:<first tick>`, the id of the tool pair that a span is."""
    return f"{episode_id}:{span.first.tick}"


def failure(step: TranscriptStep) -> str | None:
    """How a decision failed, in one line, with what was sent in place of the answer."""
    if not step.asked:
        return None
    sent = TOO_LATE if step.action is None else f"sent instead: {step.action}"
    if step.schema_error is None:
        return sent if step.action is None else None
    told = f": {step.error}" if step.error else ""
    return f"{step.schema_error}{told}; {sent}"


def _outcome(facts: EpisodeFacts, steps: Sequence[TranscriptStep]) -> tuple[tuple[str, str | int | float | None], ...]:
    return (
        (facts.metric_name, facts.metric),
        ("decisions", len(steps)),
        ("end reason", facts.end_reason),
        ("out of schema", sum(step.schema_error is not None for step in steps)),
    )
