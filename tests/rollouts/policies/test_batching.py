"""Dynamic batching: who waits for whom, and whose error an error is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rollouts.errors import PolicyError, TryVoid
from rollouts.policies.base import Question
from rollouts.policies.batching import ActBatch, Batcher, Outcome
from rollouts.records import Answer, Snapshot


def question(text: str) -> Question:
    return Question(Snapshot(0), text, ("a", "b"), None)


@dataclass
class Echo:
    """Answers each text with itself, and remembers its batches; `bad` texts make it raise."""

    takes_s: float = 0.0
    bad: dict[str, Exception] = field(default_factory=dict)
    batches: list[list[str]] = field(default_factory=list)

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        texts = [question.text for question in questions]
        self.batches.append(texts)
        time.sleep(self.takes_s)
        for text in texts:
            if text in self.bad:
                raise self.bad[text]
        return [Answer(text) for text in texts]


def asked(act_batch: ActBatch, texts: Sequence[str], most: int = 64, wait_s: float = 0.02) -> list[Outcome]:
    """All at once, each by an asker of its own."""

    async def ask() -> list[Outcome]:
        batcher = Batcher(act_batch, most, wait_s)
        return await asyncio.gather(*(batcher.ask(f"asker {text}", question(text)) for text in texts))

    return run(ask())


def run(job: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(job, 30))


def choices(outcomes: Sequence[Outcome]) -> list[str | None]:
    return [outcome.choice for outcome in outcomes if isinstance(outcome, Answer)]


def test_many_at_once_are_one_call_and_each_has_its_own_answer() -> None:
    echo = Echo()
    texts = [str(n) for n in range(20)]
    assert choices(asked(echo.act_batch, texts)) == texts
    assert echo.batches == [texts]


def test_a_batch_has_at_most_so_many() -> None:
    echo = Echo()
    texts = [str(n) for n in range(10)]
    assert choices(asked(echo.act_batch, texts, most=4)) == texts
    assert [len(batch) for batch in echo.batches] == [4, 4, 2]


def test_what_comes_during_a_call_is_the_next_batch() -> None:
    echo = Echo(takes_s=0.1)

    async def ask() -> None:
        batcher = Batcher(echo.act_batch, 64, 0.0)
        first = asyncio.create_task(batcher.ask("0", question("0")))
        await asyncio.sleep(0.05)
        await asyncio.gather(*(batcher.ask(str(n), question(str(n))) for n in (1, 2, 3)))
        await first

    run(ask())
    assert echo.batches == [["0"], ["1", "2", "3"]]


def test_nobody_waits_longer_than_he_may() -> None:
    """The second asker was there a moment ago and does not come: the first waits 0.2 s for him, then goes alone."""

    async def ask() -> float:
        batcher = Batcher(Echo().act_batch, 64, 0.2)
        await asyncio.gather(*(batcher.ask(who, question(who)) for who in ("1", "2")))
        begun_s = time.perf_counter()
        await batcher.ask("1", question("1"))
        return time.perf_counter() - begun_s

    assert 0.19 <= run(ask()) < 1.0


def test_once_everybody_waits_nobody_waits_any_more() -> None:
    """With a minute to wait in: the two who asked lately are there at once."""

    async def ask() -> float:
        batcher = Batcher(Echo().act_batch, 64, 60.0)
        begun_s = time.perf_counter()
        for _ in range(3):
            await asyncio.gather(*(batcher.ask(who, question(who)) for who in ("1", "2")))
        return time.perf_counter() - begun_s

    assert run(ask()) < 5.0


def test_an_error_is_that_of_its_question_alone() -> None:
    echo = Echo(bad={"3": ValueError("no such word"), "5": TryVoid("endpoint lost")})
    outcomes = asked(echo.act_batch, [str(n) for n in range(8)])
    assert choices(outcomes) == ["0", "1", "2", "4", "6", "7"]
    assert isinstance(outcomes[3], PolicyError)
    assert str(outcomes[3]) == "ValueError: no such word"
    assert isinstance(outcomes[5], TryVoid)


@pytest.mark.parametrize(
    ("act_batch", "says"),
    [
        (lambda questions: [], "act_batch returned 0 answers to 1 questions"),
        (lambda questions: ["a"], "act_batch returned str, not an Answer"),
        (lambda questions: None, "TypeError"),
    ],
)
def test_what_breaks_the_contract_is_an_error(act_batch: ActBatch, says: str) -> None:
    (outcome,) = asked(act_batch, ["x"])
    assert isinstance(outcome, PolicyError)
    assert says in str(outcome)


def test_an_asker_that_goes_away_keeps_nobody_waiting() -> None:
    echo = Echo(takes_s=0.1)

    async def ask() -> Outcome:
        batcher = Batcher(echo.act_batch, 64, 0.01)
        gone = asyncio.create_task(batcher.ask("gone", question("gone")))
        stays = asyncio.create_task(batcher.ask("stays", question("stays")))
        await asyncio.sleep(0.05)
        gone.cancel()
        return await stays

    assert run(ask()) == Answer("stays")
