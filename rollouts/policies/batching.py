"""Dynamic batching: many askers, one network that answers many questions in one call. Knows nothing of Ray.

    batcher = Batcher(policy.act_batch, most=64, wait_s=0.002)
    outcome = await batcher.ask("actor-7", question)        # an answer, or the error that it is

One call is under way at a time; what is asked meanwhile is the next batch. A batch goes off as soon as it is full, or
everybody who asked lately waits in it, or its first question has waited long enough.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from rollouts.errors import PolicyError, RolloutsError
from rollouts.policies.base import Question
from rollouts.records import Answer
from rollouts.scrub import describe_error

LATELY_S = 1.0
Outcome = Answer | RolloutsError
ActBatch = Callable[[Sequence[Question]], Sequence[Answer]]


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Question
    at_s: float
    outcome: asyncio.Future[Outcome]


class Batcher:
    """Use it in one event loop. `act_batch` runs in a thread of its own, always the same; `calls` counts its calls."""

    def __init__(self, act_batch: ActBatch, most: int, wait_s: float) -> None:
        self._act_batch = act_batch
        self._most = most
        self._wait_s = wait_s
        self._thread = ThreadPoolExecutor(1, "network")
        self._waiting: deque[_Asked] = deque()
        self._seen_s: dict[str, float] = {}
        self._complete = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self.calls = 0

    async def ask(self, who: str, question: Question) -> Outcome:
        """`who` is the asker, who has one question at a time."""
        loop = asyncio.get_running_loop()
        asked = _Asked(question, loop.time(), loop.create_future())
        self._seen_s[who] = asked.at_s
        self._waiting.append(asked)
        if len(self._waiting) >= self._enough(asked.at_s):
            self._complete.set()
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await asked.outcome

    def _enough(self, now_s: float) -> int:
        """Forgets who has not asked for long."""
        self._seen_s = {who: at_s for who, at_s in self._seen_s.items() if at_s > now_s - LATELY_S}
        return min(self._most, len(self._seen_s))

    async def _serve(self) -> None:
        """Until nobody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._gather()
            batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            self._complete.clear()
            questions = [asked.question for asked in batch]
            outcomes = await loop.run_in_executor(self._thread, self._answered, questions)
            for asked, outcome in zip(batch, outcomes, strict=True):
                if not asked.outcome.done():  # its asker may be gone
                    asked.outcome.set_result(outcome)

    async def _gather(self) -> None:
        until_s = self._waiting[0].at_s + self._wait_s
        if len(self._waiting) < self._enough(asyncio.get_running_loop().time()):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until_s):
                    await self._complete.wait()

    def _answered(self, questions: Sequence[Question]) -> list[Outcome]:
        """An error is that of the question that makes it, not of those beside it."""
        self.calls += 1
        try:
            return _checked(self._act_batch(questions), len(questions))
        except RolloutsError as error:
            failed: RolloutsError = error
        except Exception as error:  # noqa: BLE001  whatever a policy raises is data
            failed = PolicyError(describe_error(error))
        if len(questions) == 1:
            return [failed]
        return [outcome for question in questions for outcome in self._answered([question])]


def _checked(answers: Sequence[Answer], n: int) -> list[Outcome]:
    """Errors: TypeError or ValueError where they break the contract."""
    strange = next((answer for answer in answers if not isinstance(answer, Answer)), None)
    if strange is not None:
        raise TypeError(f"act_batch returned {type(strange).__name__}, not an Answer")
    if len(answers) != n:
        raise ValueError(f"act_batch returned {len(answers)} answers to {n} questions")
    return list(answers)
