"""What grading will take, before anything is sent: calls, tokens and money.

A call is a question and its answer. Counted twice: as it is where the first reply to each question can be used, and at
most, where none can and everything is asked for again as often as the rules allow. Tokens and money are upper limits
in both: a reply may be shorter than it is allowed to be. Pure: requests in, numbers out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grading.grader import GraderSettings, GradingTask, again, grader_request
from grading.judged import JudgedCall
from grading.pairs import ACT, ToolPair, episode_context, episode_pairs
from grading.played import PlayedEpisode
from grading.summarizer import MAX_TRIES, PARAMS_LIMIT, RESULT_LIMIT, SummarizerSettings, summarizer_request
from grading.task_summary import Cuts, TaskSummary, task_summary
from grading.transcript import HostAgent, conversation
from rollouts.calls.chat_records import ChatReply, ChatRequest
from rollouts.calls.endpoint import CallSettings
from rollouts.calls.prices import Price, estimate_tokens, find_price
from rollouts.calls.replies import Cause, ReplyRefused

_CONTEXT_CHARACTERS = 6_000
_REASON_CHARACTERS = 300
_FILLER = {"en": "x", "zh": "字"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, those that follow where no reply can be used, and how often one as large as that is asked."""

    request: ChatRequest
    again: tuple[ChatRequest, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class Takes:
    """`usd` is None where the model's price is not known."""

    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class Forecast:
    """For one model in one part: where every first reply can be used, and at `most`."""

    who: str
    model: str
    first: Takes
    most: Takes

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        first, most = self.first, self.most
        return {
            "who": self.who,
            "model": self.model,
            "calls": first.calls,
            "tokens_in": first.tokens_in,
            "tokens_out": first.tokens_out,
            "tokens": first.tokens,
            "usd": first.usd,
            "calls_at_most": most.calls,
            "tokens_at_most": most.tokens,
            "usd_at_most": most.usd,
        }


def forecast(who: str, model: str, asked: Iterable[Asked], prices: Mapping[str, Price]) -> Forecast:
    """Add up what `asked` takes."""
    price, first, more = find_price(prices, model), _Sum(), _Sum()
    for one in asked:
        first.add(one.request, one.times)
        for request in one.again:
            more.add(request, one.times)
    return Forecast(who, model, first.takes(price), first.plus(more).takes(price))


@dataclass
class _Sum:
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, request: ChatRequest, times: int) -> None:
        tokens_in, tokens_out = estimate_tokens(request, CallSettings().reply_tokens)
        self.calls += times
        self.tokens_in += times * tokens_in
        self.tokens_out += times * tokens_out

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)

    def takes(self, price: Price | None) -> Takes:
        usd = None if price is None else price.cost_usd(self.tokens_in, self.tokens_out)
        return Takes(self.calls, self.tokens_in, self.tokens_out, usd)


def grader_calls(settings: GraderSettings, episodes: int, repeat: int) -> list[Asked]:
    """What grading so many episodes asks, each as large as can be; nobody gave feedback on them yet."""
    task = GradingTask(conversation(HostAgent("x"), ()))
    return [_grading(task, _longest(settings), settings, episodes * repeat)]


def summarizer_calls(settings: SummarizerSettings, spans_of_episodes: Iterable[int]) -> list[Asked]:
    """What summarizing episodes of so many spans each asks, in full batches of pairs at their limits."""
    filler = _FILLER[settings.language]
    pairs = [
        ToolPair(f"{n}", "2000-01-01T00:00:00+00:00", ACT, filler * PARAMS_LIMIT, filler * RESULT_LIMIT)
        for n in range(settings.batch)
    ]
    batches = sum(-(-spans // settings.batch) for spans in spans_of_episodes)
    return [_batch(pairs, filler * _CONTEXT_CHARACTERS, settings, batches)]


def gradings_of(settings: GraderSettings, tasks: Iterable[GradingTask]) -> Iterator[Asked]:
    """The very questions that a grader asks. One that reads summaries where the episode is too long is taken to fill
    its cap with them."""
    for task in tasks:
        summary = task_summary(task.transcript, settings.caps)
        filled = settings.reads == "summaries" and summary.cuts.was_too_long
        yield _grading(task, _longest(settings) if filled else summary, settings)


def batches_of(settings: SummarizerSettings, owed: Iterable[tuple[PlayedEpisode, Sequence[int]]]) -> Iterator[Asked]:
    """The very questions that a summarizer asks about the spans of these numbers."""
    for episode, numbers in owed:
        every = episode_pairs(episode.facts, episode.steps)
        pairs = [every[number] for number in numbers]
        for first in range(0, len(pairs), settings.batch):
            context = episode_context(episode.facts, episode.steps, pairs[first].id, settings.context_exchanges)
            yield _batch(pairs[first : first + settings.batch], context, settings)


def _longest(settings: GraderSettings) -> TaskSummary:
    return TaskSummary(_FILLER[settings.language] * settings.caps.whole, Cuts())


def _grading(task: GradingTask, summary: TaskSummary, settings: GraderSettings, times: int = 1) -> Asked:
    """Asked once more at most: with a reason, and for twice as long a reply where the first was cut off."""
    request = grader_request(task, summary, settings)
    refused = JudgedCall(request, ChatReply(None), False, Cause.CUT_OFF, _reason(settings.language))
    return Asked(request, (again(request, refused, settings.prompt),), times)


def _batch(pairs: Sequence[ToolPair], context: str, settings: SummarizerSettings, times: int = 1) -> Asked:
    """Each pair is asked for 3 times at most: at first with the others, at worst alone from then on."""
    refused = ReplyRefused(Cause.CUT_OFF, _reason(settings.language))
    alone = [summarizer_request([pair], context, settings, [(pair.id, refused)]) for pair in pairs]
    return Asked(summarizer_request(pairs, context, settings), tuple(alone * (MAX_TRIES - 1)), times)


def _reason(language: str) -> str:
    """Longer than any that we give."""
    return _FILLER[language] * _REASON_CHARACTERS
