"""What grading will take at most: counted by hand, and never below what a real question needs."""

from __future__ import annotations

import pytest

from grading.forecast import forecast, grader_calls, largest_batch, largest_grading, summarizer_calls
from grading.grader import GraderSettings, GradingTask, grader_request
from grading.summarizer import SummarizerSettings
from grading.task_summary import task_summary
from grading.transcript import Exchange, HostAgent, conversation
from rollouts.calls.chat_records import ChatMessage, ChatRequest
from rollouts.calls.prices import Price, estimate_tokens

PRICES = {"judge": Price(input=2.0, output=10.0)}


def test_calls_tokens_and_money_add_up() -> None:
    """300 bytes are 100 tokens and 8 for the turn: 108 in and 50 out, three times; (324 * 2 + 150 * 10) / 1e6 USD."""
    request = ChatRequest("judge", (ChatMessage("user", "x" * 300),), max_tokens=50)
    told = forecast("grader", "judge", [(request, 3)], PRICES)
    assert (told.calls, told.tokens_in, told.tokens_out, told.tokens) == (3, 324, 150, 474)
    assert told.usd == pytest.approx(0.002148)


def test_an_unknown_price_is_none_and_never_0() -> None:
    assert forecast("grader", "nobody", [], PRICES).usd is None


def test_an_episode_is_one_question_a_repeat() -> None:
    assert [times for _, times in grader_calls(GraderSettings("judge"), episodes=32, repeat=3)] == [96]


def test_spans_are_asked_about_in_batches_of_each_episode() -> None:
    """5 pairs a call: 1 and 5 spans take a call each, 6 and 11 two and three."""
    assert [times for _, times in summarizer_calls(SummarizerSettings("writer"), [0, 1, 5, 6, 11])] == [7]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_question_is_larger_than_the_largest(language: str) -> None:
    settings = GraderSettings("judge", language=language)
    word = "x" if language == "en" else "字"
    turns = [Exchange(word * 5_000, word * 5_000) for _ in range(400)]
    transcript = conversation(HostAgent("p"), turns, standing_ask=word * 1_000)
    real = grader_request(GradingTask(transcript), task_summary(transcript, settings.caps), settings)
    assert estimate_tokens(real, 0)[0] <= estimate_tokens(largest_grading(settings), 0)[0] + 50


def test_a_full_batch_carries_every_limit() -> None:
    """5 pairs of 500 and 2,000 characters and 6,000 of context are at least 18,500 characters."""
    assert len(largest_batch(SummarizerSettings("writer")).messages[-1].text) > 18_500
