"""What goes to a model and what comes back, whoever asks: graders, summarizers or policies.

Knows nothing of HTTP, of any endpoint's client, of prompts or of what a reply should say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from rollouts.calls.limits import Spending

Role = Literal["system", "user", "assistant"]
WireName = Literal["chat", "choice"]
"""The languages that endpoints speak: chat completions, and decisions among options."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn. `images` are `data:` URLs, shown after the text in this order."""

    role: Role
    text: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The JSON schema that the endpoint is asked to enforce. Replies are parsed strictly all the same."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a model; None leaves the choice to the endpoint.

    `top_logprobs` asks for that many alternatives a token (0: the chosen token only). `repeat` (repeated measurement)
    and `grading` (a later grading of the same episode) are not sent: they keep equal questions apart in the cache.
    """

    model: str
    messages: tuple[ChatMessage, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    schema: ReplySchema | None = None
    top_logprobs: int | None = None
    repeat: int = 0
    grading: int = 0
    _key: str | None = field(default=None, init=False, repr=False, compare=False)

    def key(self) -> str:
        """SHA-256 (hex) over everything above: equal questions have equal keys, on any machine.

        Kept, since a call is looked up, noted, judged and written down under it.
        """
        if self._key is None:
            told = {name: value for name, value in asdict(self).items() if name != "_key"}
            canonical = json.dumps(told, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            digest = hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
            object.__setattr__(self, "_key", digest)
        return str(self._key)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of the reply, its natural-log probability, and the alternatives that were reported for its place."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class CallError:
    """Why there is no answer after all tries. `kind` is short and stable (`timeout`, `rate_limited`, `http_500`, …);
    `message` is one scrubbed line."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What came back. Text is as sent; nothing is stripped, mended or guessed.

    `content` is None where the endpoint gave no choice, no message or no text. `error` is set exactly when no answer
    could be had; the counts and times then cover the failed tries. `adjustments` names parameters that the endpoint
    refused and what was sent instead (`max_tokens->max_completion_tokens`, `-temperature`).
    Times: `queue_ms` waiting for the limiter, `tries_ms` of each try, `answer_ms` of the one that counted, `pause_ms`
    between failed tries, `total_ms` everything.
    `spent` is what the call counts in the budget, over all its tries: as the endpoint said, else as was estimated.
    `reused` is True for a reply that was stored earlier: it cost nothing now.
    """

    content: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    error: CallError | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    request_id: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    tries: int = 1
    tries_ms: tuple[float, ...] = ()
    queue_ms: float | None = None
    answer_ms: float | None = None
    pause_ms: float | None = None
    total_ms: float | None = None
    cost_usd: float | None = None
    spent: Spending | None = None
    adjustments: tuple[str, ...] = ()
    reused: bool = False


class Call(Protocol):
    """Sends one request. Retries, rate, cache and budget are the caller's injected business.

    Returns a reply with `error` set when this request has no answer after the retries. Raises `BudgetSpent` when the
    run's budget is used up (the work stays owed) and `RunStopped` when no further request makes sense.
    """

    async def __call__(self, request: ChatRequest, /) -> ChatReply: ...
