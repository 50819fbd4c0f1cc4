"""Tool pairs: one tool call and its result. An episode's spans are pairs of a tool called `act`.

Knows nothing of models; the summarizer takes any agent's pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grading.text import as_text, cut, quote
from grading.transcript import EpisodeFacts, Span, TranscriptStep, failure, pair_id, spans
from rollouts.errors import UsageError

ACT = "act"
CONTEXT_EXCHANGES = 3
_CONTEXT_LINE = 300


@dataclass(frozen=True, slots=True)
class ToolPair:
    """One tool call and its result; `params` and `result` are text, None or anything JSON can say.

    `id` is unique within a call of `summarize`; `timestamp` is kept byte for byte (ISO-8601 by custom).
    """

    id: str
    timestamp: str
    tool: str
    params: object = None
    result: object = None

    def __post_init__(self) -> None:
        for name in ("id", "timestamp", "tool"):
            if not getattr(self, name).strip():
                raise UsageError(f"a tool pair ({self.id or self.tool!r}) needs a {name}")

    @property
    def call(self) -> str:
        """`name(params)`, before any cut."""
        return f"{self.tool}({as_text(self.params)})"


def episode_pairs(facts: EpisodeFacts, steps: Sequence[TranscriptStep]) -> tuple[ToolPair, ...]:
    """A pair a span: params {action, repeat, tics}, result = what changed and the state after it."""
    found = spans(steps)
    after = [*(span.first.state for span in found), facts.final_state][1:]
    return tuple(_pair(facts.episode_id, span, state) for span, state in zip(found, after, strict=True))


def _pair(episode_id: str, span: Span, state_after: str | None) -> ToolPair:
    params = {"action": span.first.reply, "repeat": len(span.steps), "tics": span.first.tics}
    when = span.first.decided_at
    return ToolPair(
        id=pair_id(episode_id, span),
        timestamp=when.isoformat() if when else f"tick {span.first.tick}",
        tool=ACT,
        params=params,
        result=_result(span, state_after),
    )


def _result(span: Span, state_after: str | None) -> dict[str, object]:
    before, after = span.first.before, span.last.after
    changed = {k: f"{before[k]} -> {after[k]}" for k in before if k in after and before[k] != after[k]}
    result: dict[str, object] = {"changed": changed, "events": list(span.events), "state_after": state_after}
    error = failure(span.first)
    return {**result, "error": error} if error else result


def episode_context(
    facts: EpisodeFacts, steps: Sequence[TranscriptStep], before_id: str, exchanges: int = CONTEXT_EXCHANGES
) -> str:
    """The instructions, whole, and the last `exchanges` before the pair `before_id`, each line quoted."""
    earlier: list[Span] = []
    for span in spans(steps):
        if pair_id(facts.episode_id, span) == before_id:
            break
        earlier.append(span)
    asked = [] if facts.instructions is None else [f"INSTRUCTIONS: {quote(facts.instructions)}"]
    recent = earlier[len(earlier) - exchanges :] if exchanges < len(earlier) else earlier
    return "\n".join([*asked, *(_context_line(span) for span in recent)])


def _context_line(span: Span) -> str:
    times = f" ×{len(span.steps)}" if len(span.steps) > 1 else ""
    return f"USER: {quote(cut(span.first.state, _CONTEXT_LINE))}\nAGENT: {quote(span.first.reply + times)}"
