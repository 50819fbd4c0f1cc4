"""`choice` or `choice:MODEL`: a decision model behind an endpoint of its own kind (rollouts/calls/choice_wire.py).

It reads the state text and the rubric's instructions, and answers with an option, probabilities and confidence. MODEL
names it in the evidence; the endpoint is not told.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from rollouts.calls.chat_records import ChatMessage, ChatReply, ChatRequest, ReplySchema, WireName
from rollouts.calls.choice_wire import build_choice
from rollouts.calls.replies import shown as in_short
from rollouts.errors import UsageError
from rollouts.metrics import EXACT
from rollouts.policies.base import ModelCall, PolicyContext
from rollouts.policies.model_answers import out_of_schema
from rollouts.policies.model_settings import DECISION_ENDPOINT
from rollouts.policies.reply_rules import SchemaError
from rollouts.records import Answer, EpisodeKey, PolicyDescription, Snapshot

REPLY_TOKENS = 64
"""What is set aside for a reply where tokens are limited."""


class ChoicePolicy:
    """The choice is taken as it comes: it is an option, character for character, or out of schema."""

    wire: WireName = "choice"

    def __init__(self, context: PolicyContext) -> None:
        self._model = context.argument
        self._scenario = context.scenario
        self._shuffles = context.settings.shuffle_options
        self._call = context.calls.open(self.wire) if context.calls else None
        self._rng = np.random.default_rng(0)

    @property
    def name(self) -> str:
        return f"choice:{self._model}" if self._model else "choice"

    def reset(self, key: EpisodeKey, rng: np.random.Generator) -> None:  # noqa: ARG002
        self._rng = rng

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:  # noqa: ARG002
        """Raises `TryVoid` (the endpoint is gone), `BudgetSpent`, and `RunStopped` (no decision can be had at all)."""
        shown = tuple(options[i] for i in self._rng.permutation(len(options))) if self._shuffles else options
        request = self._request(instructions, text, shown)
        reply = self._connected()(request)
        return replace(
            self._answer(reply, options, shown),
            latency_ms=reply.answer_ms,
            options_shown=shown,
            messages=json.dumps(build_choice(request, ()).fields, ensure_ascii=False),
            raw_reply=reply.content,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            model_version=reply.model,
        )

    def describe(self) -> PolicyDescription:
        settings = {"observe": "text", "shuffle_options": self._shuffles}
        return PolicyDescription(self.name, "model", self._model, DECISION_ENDPOINT, settings=settings)

    def example(self, instructions: str | None, text: str, exchanges: int) -> ChatRequest:  # noqa: ARG002
        return self._request(instructions, text, self._scenario.options)

    def check(self, reply: ChatReply, where: str) -> SchemaError | None:  # noqa: ARG002
        return None if json.loads(reply.content or "{}").get("choice") else SchemaError.EMPTY

    def close(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.close()

    def _request(self, instructions: str | None, text: str, shown: tuple[str, ...]) -> ChatRequest:
        messages = (ChatMessage("system", instructions or ""), ChatMessage("user", text))
        schema = ReplySchema("decision", {"enum": list(shown)})
        return ChatRequest(self._model or self.name, messages, max_tokens=REPLY_TOKENS, schema=schema)

    def _answer(self, reply: ChatReply, options: tuple[str, ...], shown: tuple[str, ...]) -> Answer:
        if reply.error is not None:
            cause = out_of_schema(reply.error, self.name, self._connected().where)
            return Answer(None, cause=cause.value, detail=reply.error.message)
        decision = json.loads(reply.content or "{}")
        named = decision.get("choice")
        choice = named if isinstance(named, str) else None
        return Answer(
            choice,
            _probabilities(decision.get("probabilities"), options, shown),
            confidence=_number(decision.get("confidence")),
            cause=(SchemaError.NOT_AN_OPTION if choice else SchemaError.EMPTY).value,
            detail=None if choice in options else in_short(named),
            parse_rule=EXACT if choice in options else None,
        )

    def _connected(self) -> ModelCall:
        if self._call is None:
            raise UsageError(f"policy {self.name} has nobody to call models for it here")
        return self._call


def _probabilities(given: Any, options: tuple[str, ...], shown: tuple[str, ...]) -> dict[str, float]:
    """By name, or as a list in the order in which the options were sent; what is no number is not named."""
    named = dict(zip(shown, given, strict=True)) if isinstance(given, list) and len(given) == len(shown) else given
    pairs = ((option, _number(named.get(option))) for option in options) if isinstance(named, dict) else ()
    return {option: value for option, value in pairs if value is not None}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
