"""What grading will take, before anything is sent: calls, tokens and money, as upper limits.

A call here is a question whose first reply can be used; a reply that cannot costs one more (a summarizer's, two).
Pure: requests in, numbers out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from grading.grader import GraderSettings, GradingTask, grader_request
from grading.pairs import ACT, ToolPair, episode_context, episode_pairs
from grading.played import PlayedEpisode
from grading.summarizer import PARAMS_LIMIT, RESULT_LIMIT, SummarizerSettings, summarizer_request
from grading.task_summary import Cuts, TaskSummary, task_summary
from grading.transcript import HostAgent, conversation
from rollouts.calls.chat_records import ChatRequest
from rollouts.calls.endpoint import CallSettings
from rollouts.calls.prices import Price, estimate_tokens, find_price

_CONTEXT_CHARACTERS = 6_000
_FILLER = {"en": "x", "zh": "字"}
Asked = tuple[ChatRequest, int]
"""A request, and how often one as large as that is sent."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Upper limits for one model in one part; `usd` is None where the model's price is not known."""

    who: str
    model: str
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, `tokens` among them."""
        return {**asdict(self), "tokens": self.tokens}


def forecast(who: str, model: str, asked: Iterable[Asked], prices: Mapping[str, Price]) -> Forecast:
    """Add up what `asked` takes."""
    calls = tokens_in = tokens_out = 0
    for request, times in asked:
        one_in, one_out = estimate_tokens(request, CallSettings().reply_tokens)
        calls, tokens_in, tokens_out = calls + times, tokens_in + times * one_in, tokens_out + times * one_out
    price = find_price(prices, model)
    usd = None if price is None else price.cost_usd(tokens_in, tokens_out)
    return Forecast(who, model, calls, tokens_in, tokens_out, usd)


def largest_grading(settings: GraderSettings) -> ChatRequest:
    """The largest first question a grader asks about an episode nobody gave feedback on."""
    summary = TaskSummary(_FILLER[settings.language] * settings.caps.whole, Cuts())
    return grader_request(GradingTask(conversation(HostAgent("x"), ())), summary, settings)


def largest_batch(settings: SummarizerSettings) -> ChatRequest:
    """The largest question of a summarizer: a full batch of pairs at their limits."""
    filler = _FILLER[settings.language]
    pairs = [
        ToolPair(f"{n}", "2000-01-01T00:00:00+00:00", ACT, filler * PARAMS_LIMIT, filler * RESULT_LIMIT)
        for n in range(settings.batch)
    ]
    return summarizer_request(pairs, filler * _CONTEXT_CHARACTERS, settings)


def grader_calls(settings: GraderSettings, episodes: int, repeat: int) -> list[Asked]:
    """What grading so many episodes asks at most."""
    return [(largest_grading(settings), episodes * repeat)]


def summarizer_calls(settings: SummarizerSettings, spans_of_episodes: Iterable[int]) -> list[Asked]:
    """What summarizing episodes of so many spans each asks at most."""
    batches = sum(-(-spans // settings.batch) for spans in spans_of_episodes)
    return [(largest_batch(settings), batches)]


def gradings_of(settings: GraderSettings, episodes: Iterable[PlayedEpisode], repeat: int) -> Iterator[Asked]:
    """The very questions that a grader asks about played episodes nobody gave feedback on.

    One that reads summaries is taken to read the episode itself, which is longer.
    """
    for episode in episodes:
        transcript = episode.transcript()
        task = GradingTask(transcript)
        yield grader_request(task, task_summary(transcript, settings.caps), settings), repeat


def batches_of(settings: SummarizerSettings, episodes: Iterable[PlayedEpisode]) -> Iterator[Asked]:
    """The very questions that a summarizer asks about played episodes."""
    for episode in episodes:
        pairs = episode_pairs(episode.facts, episode.steps)
        for first in range(0, len(pairs), settings.batch):
            context = episode_context(episode.facts, episode.steps, pairs[first].id, settings.context_exchanges)
            yield summarizer_request(pairs[first : first + settings.batch], context, settings), 1
