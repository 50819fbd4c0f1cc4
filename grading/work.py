"""Judges committed units and stages what comes of it: grades, summaries, credit, and the calls that they took.

Knows nothing of Ray. Reads the text columns of a unit's shards, in threads; a stored validated reply is never asked for
again. What it stages counts once the driver has promoted it (rollouts/run/side_folder.py).

    worker = GradingWorker(order)
    report = await worker.summarize_unit(unit, attempt, call)
    report = await worker.grade_unit(unit, attempt, call)     # heuristic and explicit grades need no call
    report = worker.credit_unit(unit, attempt)                # no call either; blocks
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

from grading.grade import Grade
from grading.grader import GraderSettings, GradingTask, grade_task
from grading.ledger import CallLedger, Kind
from grading.order import GradingOrder
from grading.owed import Question, Wanted, wanted_of
from grading.pairs import episode_context, episode_pairs
from grading.played import PlayedEpisode, RunReader
from grading.side_rows import Row
from grading.summarizer import Summaries, summarize
from grading.task_summary import StandIn
from grading.unit_task import UnitTask
from grading.without_model import grade_without_model
from rollouts.calls.chat_records import Call
from rollouts.errors import BudgetSpent, RunStopped, TryVoid
from rollouts.records import SideReport, Unit
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.store.storage import open_storage

T = TypeVar("T")


def declare(side: SideFolder, lease: Lease, order: GradingOrder) -> None:
    """Write down what is asked for, and the texts behind the order's ids; to be done before the first unit is sent."""
    for table, id, identity in order.folders():
        side.declare(lease, table, id, identity)
    if order.grader_id is not None:
        side.ask(lease, order.grader_id, order.repeats)


class GradingWorker:
    """Judges one run's units, many at once if wanted. Attempts come from the driver's lease, as for rollouts.

    Errors of each method: `StorageError`; `TryVoid` where the unit's shards are not there as they should be. A call's
    `BudgetSpent` and `RunStopped` do not come out: what is done is staged, the report is not complete and says why.
    A task that is cancelled stages nothing and loses nothing: each reply is on file as soon as it is judged.
    """

    def __init__(self, order: GradingOrder, folder: RunFolder | None = None) -> None:
        self.order = order
        self._folder = folder or RunFolder(open_storage(order.out), order.run_id)
        self._reader = RunReader(self._folder)
        self._side = SideFolder(self._folder)

    @cached_property
    def _wanted(self) -> Wanted:
        return wanted_of(self.order, self._folder)

    async def grade_unit(self, unit: Unit, attempt: str, call: Call | None = None) -> SideReport:
        """Grade what is owed of the unit, and give credit for it where the rule has all that it needs."""
        task = await asyncio.to_thread(self._begin, unit, attempt, texts=self.order.source == "llm")
        questions = task.questions(self._wanted)
        if isinstance(self.order.grader, GraderSettings):
            await self._ask_grades(task, self.order.grader, questions, call)
        else:
            self._compute_grades(task, questions)
        return await asyncio.to_thread(task.finish)

    async def summarize_unit(self, unit: Unit, attempt: str, call: Call) -> SideReport:
        """Write an offload entry for each span of each episode that has none, and for those to be asked for again."""
        settings = self.order.summarizer
        assert settings is not None, "the order has no summarizer"
        task = await asyncio.to_thread(self._begin, unit, attempt, texts=True)
        ledger = await asyncio.to_thread(self._open_ledger, task, call, "summarize", settings.summarizer_id)

        async def one(episode: PlayedEpisode, numbers: Sequence[int]) -> None:
            pairs = episode_pairs(episode.facts, episode.steps)
            context = partial(_context, episode, settings.context_exchanges)
            asked = [pairs[number] for number in numbers]
            made: Summaries = await summarize(
                asked, context, settings, ledger.about(episode.key), ledger.observer(episode.key)
            )
            task.add_entries(episode, numbers, made)

        await _all_ended(task, [one(episode, numbers) for episode, numbers in task.spans_owed()], ledger)
        return await asyncio.to_thread(task.finish, with_credit=False)

    def credit_unit(self, unit: Unit, attempt: str) -> SideReport:
        """Spread committed grades over the decisions of the episodes that have no credit for them yet."""
        return self._begin(unit, attempt, texts=False).finish()

    def judge_files(self, unit: Unit, attempt: str, read: Callable[[RunReader], list[PlayedEpisode]]) -> SideReport:
        """Grade without a model, and give credit, where the unit was just played and nothing is committed of it."""
        task = UnitTask(self.order, self._side, unit, attempt, read(self._reader), fresh=True)
        self._compute_grades(task, [Question(key, 0, n) for key in task.ids for n in range(self.order.repeats)])
        return task.finish()

    def _begin(self, unit: Unit, attempt: str, *, texts: bool) -> UnitTask:
        _ = self._wanted
        return UnitTask(self.order, self._side, unit, attempt, self._reader.read(unit, texts=texts))

    def _compute_grades(self, task: UnitTask, questions: Iterable[Question]) -> None:
        for question in questions:
            episode, said = task.episode(question.episode_id), self._said(question.episode_id)
            task.add_grade(question, grade_without_model(self.order.source, episode, said), said)

    async def _ask_grades(
        self, task: UnitTask, settings: GraderSettings, questions: Sequence[Question], call: Call | None
    ) -> None:
        if not questions:
            return
        assert call is not None, "a grader that is a model needs a call"
        ledger = await asyncio.to_thread(self._open_ledger, task, call, "grade", settings.grader_id)

        async def one(question: Question) -> None:
            episode, said = task.episode(question.episode_id), self._said(question.episode_id)
            asked = GradingTask(
                episode.transcript(), said, _stand_ins(task, settings, episode), question.grading, question.repeat
            )
            grade: Grade = await grade_task(asked, settings, ledger.about(episode.key), ledger.observer(episode.key))
            task.add_grade(question, grade, said, ledger.call_id(grade.calls[-1]))

        await _all_ended(task, [one(question) for question in questions], ledger)

    def _said(self, episode_id: str) -> tuple[Any, ...]:
        return tuple(self._wanted.said.get(episode_id, ()))

    def _open_ledger(self, task: UnitTask, call: Call, kind: Kind, who: str) -> CallLedger:
        def write(row: Row) -> None:
            self._side.journal.write(who, task.unit, row)

        on_file = self._side.journal.read(who, task.unit)
        committed = self._side.rows("calls", who, task.unit)
        return CallLedger(
            call,
            kind=kind,
            who=who,
            attempt=task.attempt,
            make=task.make,
            committed=committed,
            on_file=on_file,
            write=write,
        )


def _context(episode: PlayedEpisode, exchanges: int, first: Any) -> str:
    return episode_context(episode.facts, episode.steps, first.id, exchanges)


def _stand_ins(task: UnitTask, settings: GraderSettings, episode: PlayedEpisode) -> dict[str, StandIn]:
    """The entries that a grader reads. Errors: `TryVoid` where it reads summaries and they are not there."""
    if settings.reads != "summaries" or not episode.steps:
        return {}
    if episode.id not in task.entries_read_by_grader:
        raise TryVoid(f"{episode.id} has no summaries of {settings.summarizer_id} yet")
    return task.stand_ins(episode.id)


async def _all_ended(task: UnitTask, work: Sequence[Coroutine[Any, Any, None]], ledger: CallLedger) -> None:
    """Wait for all; a budget that is spent or a pool that is stopped ends some, and the report says so."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    await ledger.settle()
    task.calls = (ledger.who, ledger.rows)
    for error in ended:
        if isinstance(error, BudgetSpent | RunStopped):
            task.stop = task.stop or ("budget" if isinstance(error, BudgetSpent) else "stopped", str(error))
        elif isinstance(error, BaseException):
            raise error
