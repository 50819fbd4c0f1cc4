"""The text of a transcript that a grader reads: sections in a fixed order, caps in characters, cuts that show.

All foreign text stands in double quotes on one line (see `text.quote`), so that no heading and no block end can come
from it. When the whole is too long, turns in the middle go: what stays is 55 % head and 45 % tail.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from grading.text import cut, quote
from grading.transcript import Exchange, HostAgent, Transcript
from rollouts.errors import UsageError

HEAD_SHARE = 0.55
TAIL_SHARE = 0.45
SUMMARY_SCORE_FLOOR = 1.0
_MARKER_ROOM = 240
_PROMPT_TOKENS = 2_500
_CHARACTERS_A_TOKEN = {"en": 3.0, "zh": 1.0}
_MIN_WHOLE = 1_500


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits in characters of the text itself, before quoting; `whole` limits the finished summary."""

    user_line: int = 300
    reply: int = 400
    last_ask: int = 500
    last_reply: int = 2_000
    whole: int = 24_000


def whole_for_context(context_tokens: int, reply_tokens: int, language: str) -> int:
    """A whole-summary cap that fits a grader's context, beside the instructions and the reply; never above the usual.

    What people wrote, mostly nothing, is not counted. Raises `UsageError` where there is no room worth the name.
    """
    a_token = _CHARACTERS_A_TOKEN[language]
    room = context_tokens - reply_tokens - _PROMPT_TOKENS
    if room * a_token < _MIN_WHOLE:
        least = reply_tokens + _PROMPT_TOKENS + math.ceil(_MIN_WHOLE / a_token)
        raise UsageError(
            f"a grader's context of {context_tokens} tokens is too small: instructions, reply and {_MIN_WHOLE} "
            f"characters of the episode take at least {least}"
        )
    return min(Caps().whole, int(room * a_token))


@dataclass(frozen=True, slots=True)
class Cuts:
    """What a grader did not get to read, in characters and turns; `over` is what the whole exceeds its cap by
    because the parts that are never cut are longer than that."""

    lines_shortened: int = 0
    characters_shortened: int = 0
    turns_left_out: int = 0
    characters_left_out: int = 0
    turns_summarized: int = 0
    feedback_rows_left_out: int = 0
    over: int = 0

    @property
    def anything(self) -> bool:
        return any(asdict(self).values())

    @property
    def was_too_long(self) -> bool:
        """Whether the whole did not fit as it was, so that summaries were read where there are any."""
        return bool(self.turns_summarized or self.turns_left_out or self.over)

    def to_json(self) -> str:
        """The `cut` column: the counts that are not 0, as compact JSON."""
        return json.dumps({name: n for name, n in asdict(self).items() if n}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> Cuts:
        """What `to_json` has written; nothing was cut where there is no text."""
        return cls(**json.loads(text or "{}"))


@dataclass(frozen=True, slots=True)
class TaskSummary:
    text: str
    cuts: Cuts


@dataclass(frozen=True, slots=True)
class StandIn:
    """An offload entry that may take the place of an exchange in the summary; `score` is 0-10."""

    tool_call: str
    summary: str
    score: float


NO_STAND_INS: Mapping[str, StandIn] = {}


def task_summary(
    transcript: Transcript, caps: Caps | None = None, stand_ins: Mapping[str, StandIn] = NO_STAND_INS
) -> TaskSummary:
    """The summary of `transcript` within `caps.whole`.

    `stand_ins` (by exchange key) replace exchanges from the highest score down, never below 1, only until the whole
    fits; what is still too long is cut in the middle. The standing ask, the last exchange and the outcome are kept.
    """
    draft = _Draft(transcript, caps or Caps())
    for number, entry in _by_score(transcript.exchanges, stand_ins):
        if draft.length() <= draft.caps.whole:
            break
        draft.stand_in(number, entry)
    return draft.finish()


def _by_score(exchanges: Sequence[Exchange], stand_ins: Mapping[str, StandIn]) -> list[tuple[int, StandIn]]:
    found = [(n, stand_ins[e.key]) for n, e in enumerate(exchanges) if e.key is not None and e.key in stand_ins]
    return sorted((f for f in found if f[1].score >= SUMMARY_SCORE_FLOOR), key=lambda f: (-f[1].score, f[0]))


class _Draft:
    """A summary in the making: fixed parts, and two lines of text (turn, step) for each exchange."""

    def __init__(self, transcript: Transcript, caps: Caps) -> None:
        self.caps = caps
        self._shortened: list[int] = []
        self._summarized: set[int] = set()
        self._transcript = transcript
        exchanges = transcript.exchanges
        self._turn_losses: list[list[int]] = []
        self._turns = [self._turn(n, exchange) for n, exchange in enumerate(exchanges, 1)]
        self._steps = [_step_line(n, exchange) for n, exchange in enumerate(exchanges, 1)]
        self._opening = self._open(transcript)
        self._between = f"\n\n## AGENT_STEPS ({len(exchanges)})"
        self._closing = self._close(transcript)

    def length(self) -> int:
        items = sum(len(turn) + len(step) + 2 for turn, step in zip(self._turns, self._steps, strict=True))
        return len(self._opening) + len(self._between) + len(self._closing) + items

    def stand_in(self, number: int, entry: StandIn) -> None:
        """Put an entry in the place of an exchange where that is shorter."""
        line = f"[{number + 1}] SUMMARY: {quote(f'{entry.tool_call} -> {entry.summary}')}"
        if len(line) < len(self._turns[number]):
            self._turns[number] = line
            self._turn_losses[number] = []
            self._summarized.add(number)

    def finish(self) -> TaskSummary:
        over = self.length() - self.caps.whole
        head, tail = len(self._turns), 0
        if over > 0:
            head, tail = self._kept()
        text = "".join((
            self._opening,
            *_lines(self._turns, head, tail, "turns"),
            self._between,
            *_lines(self._steps, head, tail, "steps"),
            self._closing,
        ))  # fmt: skip
        return TaskSummary(text, self._cuts(head, tail, len(text)))

    def _kept(self) -> tuple[int, int]:
        costs = [len(turn) + len(step) + 2 for turn, step in zip(self._turns, self._steps, strict=True)]
        room = self.caps.whole - (self.length() - sum(costs)) - _MARKER_ROOM
        head = _how_many(costs, room * HEAD_SHARE)
        tail = _how_many(costs[head:][::-1], room * TAIL_SHARE)
        return head, tail

    def _cuts(self, head: int, tail: int, length: int) -> Cuts:
        count = len(self._turns)
        gone = range(head, count - tail)
        kept = [n for n in range(count) if n not in gone]
        losses = self._shortened + [loss for n in kept for loss in self._turn_losses[n]]
        return Cuts(
            lines_shortened=len(losses),
            characters_shortened=sum(losses),
            turns_left_out=len(gone),
            characters_left_out=sum(len(self._turns[n]) + len(self._steps[n]) for n in gone),
            turns_summarized=sum(n in self._summarized for n in kept),
            over=max(0, length - self.caps.whole),
        )

    def _open(self, transcript: Transcript) -> str:
        standing = transcript.standing_ask is not None
        lines = [
            "## HOST_AGENT_CONTEXT",
            *_host_lines(transcript.host),
            "",
            f"## USER_ASKS_AND_AGENT_REPLIES ({len(transcript.exchanges) + standing}, in order)",
        ]
        if transcript.standing_ask is not None:
            lines.append(f"[0] USER (standing, holds from first turn to last): {quote(transcript.standing_ask)}")
        return "\n".join(lines)

    def _close(self, transcript: Transcript) -> str:
        ask, reply = transcript.last_ask, transcript.last_reply
        lines = ["\n", "## OUTCOME", *(f"{_plain(name)}: {_value(value)}" for name, value in transcript.outcome)]
        lines += ["", "## MOST_RECENT_USER_ASK", self._capped(ask, self.caps.last_ask, self._shortened)]
        lines += ["", "## MOST_RECENT_AGENT_REPLY", self._capped(reply, self.caps.last_reply, self._shortened)]
        return "\n".join(lines)

    def _turn(self, number: int, exchange: Exchange) -> str:
        losses: list[int] = []
        self._turn_losses.append(losses)
        ask = self._capped(exchange.ask, self.caps.user_line, losses)
        reply = self._capped(exchange.reply, self.caps.reply, losses, _times(exchange.count))
        return f"[{number}] USER: {ask}\n[{number}] AGENT: {reply}"

    def _capped(self, text: str | None, limit: int, losses: list[int], suffix: str = "") -> str:
        if text is None:
            return "(none)"
        if len(text) > limit:
            losses.append(len(text) - limit)
        return quote(cut(text, limit, f"...[{len(text) - limit} more characters]") + suffix)


def _host_lines(host: HostAgent) -> list[str]:
    given = (("name", host.name), ("kind", host.kind), ("model", host.model), ("provider", host.provider))
    lines = [f"{name}: {_value(value)}" for name, value in given]
    return [*lines, f"note: {quote(host.note)}"] if host.note else lines


def _step_line(number: int, exchange: Exchange) -> str:
    note = f"{exchange.note}: " if exchange.note else ""
    events = f" | events: {', '.join(map(_plain, exchange.events))}" if exchange.events else ""
    state = f"FAILED {quote(cut(exchange.error, 200))}" if exchange.error else "ok"
    return f"[{number}] {note}{quote(cut(exchange.reply, 60) + _times(exchange.count))} | {state}{events}"


def _times(count: int) -> str:
    return f" ×{count}" if count > 1 else ""


def _plain(name: str) -> str:
    """A name of ours or of a scenario's: escaped like quoted text, without the quotes."""
    return quote(name)[1:-1]


def _value(value: str | int | float | None) -> str:
    if value is None:
        return "(not given)"
    return quote(value) if isinstance(value, str) else str(round(value, 4))


def _how_many(costs: Sequence[int], room: float) -> int:
    """How many items from the start fit into `room` characters."""
    used = 0
    for count, cost in enumerate(costs):
        used += cost
        if used > room:
            return count
    return len(costs)


def _lines(items: Sequence[str], head: int, tail: int, what: str) -> list[str]:
    """`items`, each on a new line, with a marker where the middle was left out."""
    end = len(items) - tail
    gone = items[head:end]
    marker = [f"[... {len(gone)} {what} left out here ({head + 1} to {end}): {sum(map(len, gone))} characters ...]"]
    return ["\n" + line for line in (*items[:head], *(marker if gone else ()), *items[end:])]
