"""`chat:MODEL`: a language or vision model behind an OpenAI-compatible endpoint plays.

Knows nothing of HTTP, limits or budgets: whoever makes it injects the calls. See ModelSettings for what it is shown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from rollouts.calls.chat_records import ChatReply, ChatRequest, ReplySchema, WireName
from rollouts.calls.replies import shown as in_short
from rollouts.calls.replies import shows_thinking
from rollouts.errors import UsageError
from rollouts.frames import encode, frame_path
from rollouts.metrics import EXACT
from rollouts.policies.base import ModelCall, PolicyContext
from rollouts.policies.chat_history import ChatHistory, Exchange, Picture, Turn, as_json, as_messages
from rollouts.policies.chat_prompt import answer_text, chat_prompt, system_text, turn_text
from rollouts.policies.model_answers import (
    TOO_LONG,
    TOO_MANY_PICTURES,
    out_of_schema,
    picture_limit,
    refuse_silence,
)
from rollouts.policies.model_settings import OPENAI_COMPATIBLE
from rollouts.policies.option_codes import codes_of, score_options
from rollouts.policies.reply_rules import ACTION, SchemaError, read_choice, unusable
from rollouts.records import Answer, EpisodeKey, Frame, PolicyDescription, Snapshot

TOP_LOGPROBS = 20
_EXAMPLE_FRAME = Frame(np.zeros((240, 320, 3), np.uint8))


@dataclass(frozen=True, slots=True)
class _Moment:
    """One decision: what is shown, the options as they stand there, and in the scenario's order. `seed` is for an
    endpoint that draws."""

    turn: Turn
    shown: tuple[str, ...]
    options: tuple[str, ...]
    seed: int | None


class ChatPolicy:
    """Asks once a decision; once or twice more, with less history, where the endpoint says that it was too much."""

    wire: WireName = "chat"

    def __init__(self, context: PolicyContext) -> None:
        if context.argument is None:
            raise UsageError("policy 'chat' wants a model, as the endpoint calls it: chat:MODEL")
        self._model = context.argument
        self._scenario = context.scenario
        self._settings = settings = context.settings
        if settings.answer == "letters":
            codes_of(context.scenario.options)
        self._call = context.calls.open(self.wire) if context.calls else None
        left_out = chat_prompt().sections["picture_left_out"]
        self._history = ChatHistory(settings.history, settings.history_frames if settings.sees else 0, left_out)
        self._key = EpisodeKey(context.scenario.name, "", self.name, 0, 0)
        self._rng = np.random.default_rng(0)
        self._tick = 0

    @property
    def name(self) -> str:
        return f"chat:{self._model}"

    def reset(self, key: EpisodeKey, rng: np.random.Generator) -> None:
        self._key, self._rng, self._tick = key, rng, 0
        self._history.clear()

    def at(self, tick: int) -> None:
        self._tick = tick

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        """Raises `TryVoid` (the endpoint is gone), `BudgetSpent`, and `RunStopped` (no decision can be had at all)."""
        moment = self._look(snapshot, text, options)
        turns, reply = self._ask(Turn("system", system_text(self._settings, instructions)), moment)
        answer = self._answer(reply, moment)
        if answer.choice is not None:
            self._history.add(Exchange(moment.turn, answer_text(self._settings.answer, answer.choice, moment.shown)))
        return _with_evidence(answer, reply, moment, turns)

    def describe(self) -> PolicyDescription:
        settings = asdict(self._settings)
        if not self._settings.sees:
            del settings["frames"]
        kept = {**settings, "max_tokens": self._settings.reply_tokens, "prompt": asdict(chat_prompt().ref)}
        if self._settings.answer == "letters":
            kept["top_logprobs"] = TOP_LOGPROBS
        return PolicyDescription(self.name, "model", self._model, OPENAI_COMPATIBLE, settings=kept)

    def example(self, instructions: str | None, text: str, exchanges: int) -> ChatRequest:
        snapshot = Snapshot(0, health=100, ammo=100, kills=0, frame=_EXAMPLE_FRAME)
        moment = self._look(snapshot, text, self._scenario.options)
        past = ChatHistory(exchanges, self._settings.history_frames, "")
        for _ in range(exchanges):
            past.add(Exchange(moment.turn, answer_text(self._settings.answer, moment.shown[0], moment.shown)))
        return self._request([Turn("system", system_text(self._settings, instructions)), *past.turns(), moment.turn])

    def check(self, reply: ChatReply, where: str) -> SchemaError | None:
        letters = self._settings.answer == "letters"
        cause = unusable(reply, short=letters)
        if letters and cause is None and not reply.logprobs:
            refuse_silence(self.name, where)
        return cause

    def close(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.close()

    def _look(self, snapshot: Snapshot, text: str, options: tuple[str, ...]) -> _Moment:
        shown = options
        if self._settings.shuffle_options:
            shown = tuple(options[i] for i in self._rng.permutation(len(options)))
        said = turn_text(self._settings, snapshot, text, shown)
        seed = int(self._rng.integers(2**31)) if self._settings.endpoint_draws else None
        return _Moment(Turn("user", said, self._picture(snapshot)), shown, options, seed)

    def _picture(self, snapshot: Snapshot) -> Picture | None:
        if not self._settings.sees:
            return None
        if snapshot.frame is None:
            raise ValueError(f"{self.name} is to see the frame, and there is none")
        path = frame_path(self._key.episode_id, self._tick, self._settings.frames)
        return Picture(encode(snapshot.frame, self._settings.picture_format), path)

    def _ask(self, system: Turn, moment: _Moment) -> tuple[list[Turn], ChatReply]:
        """The turns that were sent last, and what came back."""
        call = self._connected()
        while True:
            turns = [system, *self._history.turns(), moment.turn]
            reply = call(self._request(turns, moment.seed))
            if not self._trimmed(reply):
                return turns, reply

    def _trimmed(self, reply: ChatReply) -> bool:
        """Whether less will be sent from now on, since this was too much."""
        error = reply.error
        if error is None or error.kind not in (TOO_LONG, TOO_MANY_PICTURES):
            return False
        if error.kind == TOO_LONG:
            return self._history.forget_half()
        most = picture_limit(error.message)
        return self._history.show_fewer(None if most is None else most - 1)

    def _request(self, turns: list[Turn], seed: int | None = None) -> ChatRequest:
        settings = self._settings
        letters = settings.answer == "letters"
        return ChatRequest(
            self._model,
            as_messages(turns),
            max_tokens=settings.reply_tokens,
            temperature=0.0 if letters else settings.temperature,
            seed=seed,
            schema=_schema(self._scenario.options) if settings.answer == "json" else None,
            top_logprobs=TOP_LOGPROBS if letters else 0,
        )

    def _answer(self, reply: ChatReply, moment: _Moment) -> Answer:
        if reply.error is not None:
            cause = out_of_schema(reply.error, self.name, self._connected().where)
            return Answer(None, cause=cause.value, detail=reply.error.message)
        if self._settings.answer == "letters":
            return self._by_letters(reply, moment)
        found = read_choice(reply, moment.options, self._settings.answer)
        return Answer(found.choice, cause=found.cause and found.cause.value, detail=found.detail, parse_rule=found.rule)

    def _by_letters(self, reply: ChatReply, moment: _Moment) -> Answer:
        cause = self.check(reply, self._connected().where)
        if cause is not None:
            return Answer(None, cause=cause.value, detail=in_short(reply.refusal or f"{reply.finish_reason}"))
        scores = score_options(reply.logprobs or (), moment.shown, moment.options)
        choice = scores.draw(self._settings.temperature, self._rng) if scores else None
        if scores is None or choice is None:
            cause = SchemaError.THINKING if shows_thinking(reply.content or "") else SchemaError.NOT_AN_OPTION
            return Answer(None, cause=cause.value, detail=in_short(reply.content), option_mass=0.0)
        return Answer(
            choice,
            scores.probabilities,
            confidence=scores.probabilities[choice],
            parse_rule=EXACT if reply.content == answer_text(self._settings.answer, choice, moment.shown) else "letter",
            option_mass=scores.mass,
            probability_bound=scores.bound,
        )

    def _connected(self) -> ModelCall:
        if self._call is None:
            raise UsageError(f"policy {self.name} has nobody to call models for it here")
        return self._call


def _schema(options: tuple[str, ...]) -> ReplySchema:
    """Options in the scenario's order, whatever order is shown: an endpoint compiles the same schema once."""
    action = {"type": "string", "enum": list(options)}
    fields = {"type": "object", "properties": {ACTION: action}, "required": [ACTION], "additionalProperties": False}
    return ReplySchema("decision", fields)


def _with_evidence(answer: Answer, reply: ChatReply, moment: _Moment, turns: list[Turn]) -> Answer:
    tokens = reply.logprobs
    return replace(
        answer,
        latency_ms=reply.answer_ms,
        options_shown=moment.shown,
        policy_text=moment.turn.text,
        messages=as_json(turns),
        raw_reply=reply.content if reply.content is not None else reply.refusal,
        finish_reason=reply.finish_reason,
        reply_tokens=None if tokens is None else tuple(token.token for token in tokens),
        reply_logprobs=None if tokens is None else tuple(token.logprob for token in tokens),
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        model_version=reply.model,
    )
