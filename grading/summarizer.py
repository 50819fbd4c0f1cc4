"""The summarizer: tool pairs in, one offload entry for each out, whatever the model answers.

Knows nothing of games, endpoints or storage: a `Call` is injected. Pairs are asked for in batches; objects are
matched to pairs by id alone, and only pairs without a usable object are asked for again, in smaller batches where the
reply was cut off. After 3 tries a pair gets a degraded entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grading.entries import (
    SUMMARY_LIMIT,
    TOOL_CALL_LIMIT,
    Entry,
    degraded,
    finished,
    needs_compress,
    too_long,
)
from grading.grader import identified
from grading.judged import JudgedCall, Observer, ignore
from grading.pairs import CONTEXT_EXCHANGES, ToolPair
from grading.prompt_files import Prompt, PromptRef, load_prompt
from grading.replies import ENTRY_KEYS, EntryReplies, EntryReply, read_entries
from grading.text import as_text, cut, fence, quote
from rollouts.calls.chat_records import Call, ChatMessage, ChatReply, ChatRequest, ReplySchema
from rollouts.calls.replies import Cause, ReplyRefused
from rollouts.errors import UsageError

MAX_BATCH = 20
MAX_TRIES = 3
PARAMS_LIMIT = 500
RESULT_LIMIT = 2_000
MARKER = "[NEEDS_COMPRESS]"
WRAPPER = "entries"
_HELD_BACK = frozenset({Cause.REFUSED, Cause.FILTERED})

Context = str | None | Callable[[ToolPair], str]
"""Recent context of the task: one text for all pairs, or a function of a batch's first pair."""


@dataclass(frozen=True, slots=True)
class SummarizerSettings:
    """Who summarizes and how. `batch` is 1-20 pairs a call; `max_tokens` allows for `tokens_a_pair` each.

    `use_schema` asks the endpoint for one object with the array as its only value; without it, for the array alone.
    `context_exchanges` is how much recent context an episode's batches get. `own_prompt` is asked in the place of ours,
    which `language` names.
    """

    model: str
    language: str = "en"
    batch: int = 5
    context_exchanges: int = CONTEXT_EXCHANGES
    temperature: float | None = 0.0
    max_tokens: int = 1_024
    tokens_a_pair: int = 400
    use_schema: bool = True
    seed: int | None = None
    own_prompt: Prompt | None = None

    def __post_init__(self) -> None:
        load_prompt("summarizer", self.language)
        if not 1 <= self.batch <= MAX_BATCH:
            raise UsageError(f"summarizer batch {self.batch} is not from 1 to {MAX_BATCH} pairs")

    @property
    def prompt(self) -> Prompt:
        return self.own_prompt or load_prompt("summarizer", self.language)

    def identity(self) -> dict[str, Any]:
        """What the id stands for, ready for the `.json` beside the summaries (with the whole prompt text)."""
        return {
            "kind": "llm",
            "model": self.model,
            "prompt": asdict(self.prompt.ref),
            "prompt_text": self.prompt.text,
            "batch": self.batch,
            "context_exchanges": self.context_exchanges,
            "temperature": self.temperature,
        }

    @property
    def summarizer_id(self) -> str:
        """Slug of the model and 8 hex of the identity."""
        return identified(self.model, self.identity())


@dataclass(frozen=True, slots=True)
class Summaries:
    """An entry for each pair, in the order of the pairs; the calls in the order in which their batches began."""

    entries: tuple[Entry, ...]
    prompt: PromptRef
    calls: tuple[JudgedCall, ...] = ()


@dataclass(slots=True)
class _Ask:
    """A pair on its way: how often it was asked for, why there is no entry yet, and a valid but too long reply."""

    pair: ToolPair
    tries: int = 0
    held_back: int = 0
    refusal: ReplyRefused | None = None
    long: EntryReply | None = None
    entry: Entry | None = None


async def summarize(
    pairs: Sequence[ToolPair], context: Context, settings: SummarizerSettings, call: Call, observe: Observer = ignore
) -> Summaries:
    """Offload entries for any agent's tool pairs; batches are asked for at the same time.

    Raises `UsageError` for doubled ids. `BudgetSpent` and `RunStopped` from `call` pass through once the batches
    under way have ended; what they were answered has been told to `observe`.
    """
    if len({pair.id for pair in pairs}) < len(pairs):
        raise UsageError("tool pairs must have distinct ids")
    asks = [_Ask(pair) for pair in pairs]
    batches = [asks[n : n + settings.batch] for n in range(0, len(asks), settings.batch)]
    workers = [_Batch(batch, context, settings, call, observe) for batch in batches]
    for result in await asyncio.gather(*(worker.run() for worker in workers), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
    entries = tuple(ask.entry or degraded(ask.pair, ask.refusal.cause if ask.refusal else None) for ask in asks)
    calls = tuple(judged for worker in workers for judged in worker.calls)
    return Summaries(entries, settings.prompt.ref, calls)


class _Batch:
    """A batch until each of its pairs has an entry or has used up its tries."""

    def __init__(
        self, asks: list[_Ask], context: Context, settings: SummarizerSettings, call: Call, observe: Observer
    ) -> None:
        self.calls: list[JudgedCall] = []
        self._asks = asks
        self._size = len(asks)
        self._context = context(asks[0].pair) if callable(context) else context
        self._settings = settings
        self._call = call
        self._observe = observe

    async def run(self) -> None:
        while owed := [ask for ask in self._asks if _owed(ask)]:
            fewest = min(ask.tries for ask in owed)
            await self._once([ask for ask in owed if ask.tries == fewest][: self._size])

    async def _once(self, asks: list[_Ask]) -> None:
        pairs = [ask.pair for ask in asks]
        reasons = [(ask.pair.id, ask.refusal) for ask in asks if ask.refusal]
        request = summarizer_request(pairs, self._context, self._settings, reasons)
        reply = await self._call(request)
        replies, whole = _read(reply, [pair.id for pair in pairs])
        for ask in asks:
            _take(ask, replies, whole)
        self._note(request, reply, [ask.refusal for ask in asks if ask.refusal], bool(replies and replies.entries))
        self._shrink(replies, whole, len(asks))

    def _note(self, request: ChatRequest, reply: ChatReply, refusals: list[ReplyRefused], useful: bool) -> None:
        cause, detail = (refusals[0].cause, refusals[0].detail) if refusals else (None, None)
        judged = JudgedCall(request, reply, useful, cause, detail)
        self.calls.append(judged)
        self._observe(judged)

    def _shrink(self, replies: EntryReplies | None, whole: ReplyRefused | None, asked: int) -> None:
        """Cut off: half as many at a time. Held back: one by one, so that one pair cannot take others with it."""
        if (replies and replies.cut_off) or (whole and whole.cause is Cause.CUT_OFF):
            self._size = max(1, asked // 2)
        elif whole and whole.cause in _HELD_BACK:
            self._size = 1


def _owed(ask: _Ask) -> bool:
    """Whether to ask (again): not after 3 tries, a second refusal or filter, or a call that failed for good."""
    hopeless = ask.held_back > 1 or (ask.refusal is not None and ask.refusal.cause is Cause.ENDPOINT_ERROR)
    return ask.entry is None and ask.tries < MAX_TRIES and not hopeless


def _read(reply: ChatReply, ids: Sequence[str]) -> tuple[EntryReplies | None, ReplyRefused | None]:
    try:
        return read_entries(reply, ids), None
    except ReplyRefused as error:
        return None, error


def _take(ask: _Ask, replies: EntryReplies | None, whole: ReplyRefused | None) -> None:
    """Settle what a reply means for one pair. A text that is too long gets one more try, then it is cut."""
    ask.tries += 1
    ask.held_back += bool(whole and whole.cause in _HELD_BACK)
    found = replies.entries.get(ask.pair.id) if replies else None
    long = too_long(ask.pair, found) if found else None
    best = found or ask.long
    flags = replies.flags if replies else ()
    if best is None:
        ask.refusal = whole or (replies.refused[ask.pair.id] if replies else None)
    elif long is None or ask.long is not None or ask.tries >= MAX_TRIES:
        again = ("asked_again",) if ask.tries > 1 else ()
        ask.entry, ask.refusal = finished(ask.pair, best, (*flags, *again)), None
    else:
        ask.long, ask.refusal = found, ReplyRefused(Cause.TOO_LONG, long)


def summarizer_request(
    pairs: Sequence[ToolPair],
    context: str | None,
    settings: SummarizerSettings,
    reasons: Sequence[tuple[str, ReplyRefused]] = (),
) -> ChatRequest:
    """The request for one batch: context, numbered pairs, closing request, and why pairs are asked for again."""
    prompt = settings.prompt
    system = prompt.fill("system", tool_call_limit=TOOL_CALL_LIMIT, summary_limit=SUMMARY_LIMIT)
    user = prompt.fill(
        "user",
        context=fence(context) if context else prompt.sections["none"],
        count=len(pairs),
        pairs="\n\n".join(_numbered(number, pair) for number, pair in enumerate(pairs, 1)),
        shape=prompt.sections["object" if settings.use_schema else "array"],
    )
    if reasons:
        user += prompt.fill("again", reasons="\n".join(_reason(prompt, key, error) for key, error in reasons))
    return ChatRequest(
        model=settings.model,
        messages=(ChatMessage("system", system), ChatMessage("user", user)),
        max_tokens=settings.max_tokens + settings.tokens_a_pair * len(pairs),
        temperature=settings.temperature,
        seed=settings.seed,
        schema=entries_schema() if settings.use_schema else None,
    )


def _numbered(number: int, pair: ToolPair) -> str:
    marker = f" {MARKER}" if needs_compress(pair) else ""
    params = fence(cut(as_text(pair.params), PARAMS_LIMIT))
    result = fence(cut(as_text(pair.result), RESULT_LIMIT))
    return "\n".join((
        f"{number}.",
        f"id: {quote(pair.id)}",
        f"timestamp: {quote(pair.timestamp)}",
        f"tool: {quote(pair.tool)}{marker}",
        f"params:\n{params}",
        f"result:\n{result}",
    ))  # fmt: skip


def _reason(prompt: Prompt, key: str, error: ReplyRefused) -> str:
    return f"- {quote(key)}: {prompt.cause(error.cause)} ({error.detail})"


def entries_schema() -> ReplySchema:
    """The JSON schema of a batch's reply: endpoints want an object, so the array stands under `entries`."""
    text: dict[str, Any] = {"type": "string"}
    properties = {key: {"type": "number"} if key == "score" else text for key in ENTRY_KEYS}
    entry = {"type": "object", "properties": properties, "required": list(ENTRY_KEYS), "additionalProperties": False}
    array = {"type": "array", "items": entry}
    schema = {"type": "object", "properties": {WRAPPER: array}, "required": [WRAPPER], "additionalProperties": False}
    return ReplySchema(WRAPPER, schema)
