"""What grading will take at most: counted by hand, and never below what a real question needs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from grading.feedback import FeedbackRow
from grading.forecast import Asked, batches_of, forecast, grader_calls, gradings_of, summarizer_calls
from grading.grader import GraderSettings, GradingTask, grade_task
from grading.pairs import ToolPair
from grading.summarizer import SummarizerSettings, summarize
from grading.task_summary import Caps
from grading.transcript import Exchange, HostAgent, conversation
from rollouts.calls.chat_records import ChatMessage, ChatReply, ChatRequest
from rollouts.calls.prices import Price, estimate_tokens

PRICES = {"judge": Price(input=2.0, output=10.0)}


def test_calls_tokens_and_money_add_up() -> None:
    """300 bytes are 100 tokens and 8 for the turn: 108 in and 50 out, three times; (324 * 2 + 150 * 10) / 1e6 USD.

    Asked again with 600 bytes and for 100 tokens: 208 in and 100 out, three times: 624 * 2 + 300 * 10 more.
    """
    request = ChatRequest("judge", (ChatMessage("user", "x" * 300),), max_tokens=50)
    longer = ChatRequest("judge", (ChatMessage("user", "x" * 600),), max_tokens=100)
    told = forecast("grader", "judge", [Asked(request, (longer,), 3)], PRICES).as_dict()
    assert (told["calls"], told["tokens_in"], told["tokens_out"], told["tokens"]) == (3, 324, 150, 474)
    assert (told["calls_at_most"], told["tokens_at_most"]) == (6, 474 + 924)
    assert told["usd"] == pytest.approx(0.002148)
    assert told["usd_at_most"] == pytest.approx(0.002148 + 0.004248)


def test_an_unknown_price_is_none_and_never_0() -> None:
    told = forecast("grader", "nobody", [], PRICES).as_dict()
    assert (told["usd"], told["usd_at_most"]) == (None, None)


def test_an_episode_is_one_question_a_repeat_and_may_be_asked_about_once_more() -> None:
    told = forecast("grader", "judge", grader_calls(GraderSettings("judge"), episodes=32, repeat=3), PRICES)
    assert (told.first.calls, told.most.calls) == (96, 192)


def test_spans_are_asked_about_in_batches_of_each_episode() -> None:
    """5 pairs a call: 1 and 5 spans take a call each, 6 and 11 two and three. At worst each of a batch's pairs is asked
    for twice more, alone."""
    told = forecast("summarizer", "w", summarizer_calls(SummarizerSettings("w"), [0, 1, 5, 6, 11]), PRICES)
    assert (told.first.calls, told.most.calls) == (7, 7 * (1 + 2 * 5))


LONG = ("x" * 5_000, "字" * 5_000)
SAID = [
    FeedbackRow("e", "explicit", "negative", 0.5, "慢" * 900, datetime(2026, 1, day, tzinfo=UTC)) for day in range(1, 9)
]


def grading(word: str, turns: int, said: int = 0) -> GradingTask:
    transcript = conversation(HostAgent("p"), [Exchange(word, word)] * turns, standing_ask=word[:1_000])
    return GradingTask(transcript, SAID[:said])


class Useless:
    """A model whose every reply is as bad as can be; sums up what it was asked."""

    def __init__(self, *replies: ChatReply) -> None:
        self._replies = replies
        self.asked: list[ChatRequest] = []

    async def __call__(self, request: ChatRequest, /) -> ChatReply:
        self.asked.append(request)
        return self._replies[min(len(self.asked), len(self._replies)) - 1]

    @property
    def tokens(self) -> int:
        return sum(sum(estimate_tokens(request, 0)) for request in self.asked)


CUT_OFF = ChatReply("", finish_reason="length")
FILTERED = ChatReply("", finish_reason="content_filter")
CHATTER = ChatReply("I would say " + "very " * 100)


@pytest.mark.parametrize("reply", [CUT_OFF, FILTERED, CHATTER])
@pytest.mark.parametrize(("said", "turns"), [(0, 3), (8, 3), (0, 400)])
@pytest.mark.parametrize(("language", "word"), [("en", LONG[0]), ("zh", LONG[1])], ids=["en", "zh"])
def test_no_grader_asks_more_than_at_most(language: str, word: str, turns: int, said: int, reply: ChatReply) -> None:
    settings, task, model = GraderSettings("judge", language=language), grading(word, turns, said), Useless(reply)
    asyncio.run(grade_task(task, settings, model))
    told = forecast("grader", "judge", gradings_of(settings, [task]), PRICES)
    assert (len(model.asked), told.most.calls) == (2, 2)
    assert sum(estimate_tokens(model.asked[0], 0)) == told.first.tokens
    assert model.tokens <= told.most.tokens


def test_a_grader_of_summaries_is_taken_to_fill_its_cap_where_the_episode_is_too_long() -> None:
    settings = GraderSettings("judge", reads="summaries", summarizer_id="s", caps=Caps(whole=9_000))
    (short,), (long,) = (list(gradings_of(settings, [grading("x" * 100, turns)])) for turns in (3, 400))
    assert "x" * 9_000 in long.request.messages[-1].text
    assert "x" * 9_000 not in short.request.messages[-1].text


@pytest.mark.parametrize(
    "replies", [(CUT_OFF,), (FILTERED,), (CHATTER,), (FILTERED, CHATTER), (CHATTER, CUT_OFF)], ids=lambda r: str(len(r))
)
@pytest.mark.parametrize("batch", [1, 3, 5])
def test_no_summarizer_asks_more_than_at_most(batch: int, replies: tuple[ChatReply, ...]) -> None:
    settings, model = SummarizerSettings("w", batch=batch), Useless(*replies)
    pairs = [ToolPair(f"{n}", "-", "act", "x" * 900, "x" * 9_000) for n in range(batch)]
    asyncio.run(summarize(pairs, "x" * 6_000, settings, model))
    told = forecast("summarizer", "w", summarizer_calls(settings, [batch]), PRICES)
    assert len(model.asked) <= told.most.calls
    assert model.tokens <= told.most.tokens


def test_the_limit_of_a_summarizers_calls_can_be_reached() -> None:
    """Held back at first, so that all are asked for one by one, and then chatter: 1 + 5 + 5."""
    model = Useless(FILTERED, CHATTER)
    pairs = [ToolPair(f"{n}", "-", "act") for n in range(5)]
    asyncio.run(summarize(pairs, None, SummarizerSettings("w"), model))
    assert len(model.asked) == 11


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_question_about_an_episode_is_larger_than_the_largest(language: str) -> None:
    settings = GraderSettings("judge", language=language)
    ((real,), (largest,)) = gradings_of(settings, [grading(LONG[language == "zh"], 400)]), grader_calls(settings, 1, 1)
    assert estimate_tokens(real.request, 0)[0] <= estimate_tokens(largest.request, 0)[0] + 50


def test_a_full_batch_carries_every_limit() -> None:
    """5 pairs of 500 and 2,000 characters and 6,000 of context are at least 18,500 characters."""
    (batch,) = summarizer_calls(SummarizerSettings("writer"), [5])
    assert len(batch.request.messages[-1].text) > 18_500


def test_nothing_owed_is_nothing_asked() -> None:
    assert list(batches_of(SummarizerSettings("writer"), [])) == []
