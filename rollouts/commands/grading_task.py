"""What `rollouts grade` is to do: checked before anything is written or sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from grading.feedback import FeedbackRow, parse_feedback
from grading.order import GradingOrder
from grading.owed import Owed, find_owed
from grading.said import Said
from rollouts.commands.ending import Asked
from rollouts.commands.flags import LateFlags
from rollouts.commands.grading_order import make_order
from rollouts.commands.judging import Judging
from rollouts.errors import UsageError
from rollouts.grading_config import GradingConfig
from rollouts.records import Unit
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_survey import survey_sides
from rollouts.run.side_tables import SideTables
from rollouts.run.survey import Survey
from rollouts.settings import unreadable


@dataclass(frozen=True)
class Task:
    """What the command is to do. `credit_only`: no grade is made, and no model asked."""

    folder: RunFolder
    config: GradingConfig
    order: GradingOrder
    feedback: tuple[FeedbackRow, ...] = ()
    credit_only: bool = False

    def retrying(self, ungraded: bool, degraded: bool) -> Task:
        """What has no score now is owed again: gradings where `ungraded`, summary entries where `degraded`."""
        now = datetime.now(UTC)
        order = replace(
            self.order,
            retry_ungraded_before=now if ungraded else None,
            retry_degraded_before=now if degraded else None,
        )
        return replace(self, order=order)

    @property
    def judging(self) -> Judging:
        return Judging(self.order, self.config)

    @property
    def asked(self) -> Asked:
        told = Asked.of(self.order, self.config)
        told = replace(told, plays=False)
        return replace(told, grader_id=None, summarizer_id=None) if self.credit_only else told

    def owed(self, plan: Iterable[Unit], survey: Survey, said: Said | None = None) -> Owed:
        committed = tuple(unit for unit in plan if unit.number in survey.committed)
        unfit = survey_sides(self.folder, survey.committed).unfit
        return find_owed(self.folder, self.order, committed, credit_only=self.credit_only, said=said, unfit=unfit)


def make_task(folder: RunFolder, config: GradingConfig, late: LateFlags, may_call: bool) -> Task:
    """The task on a run that was played. Errors: `UsageError`: nothing to do, or what contradicts itself."""
    folder.read_own_record()
    order = make_order(config, folder.run_id, folder.storage.uri, may_call and not late.credit_only)
    if order is None:
        raise UsageError("there is nothing to do: give --grade heuristic, llm or explicit, or --summarize llm")
    if late.credit_only and order.credit is None:
        raise UsageError("--credit-only wants a rule: give --credit events, summary or constant:x")
    _check_retries(order, late)
    if late.credit_only:
        _check_there(folder, order)
    task = Task(folder, config, order, _read_feedback(late.feedback), late.credit_only)
    return task.retrying(late.retry_ungraded, late.retry_degraded)


def _check_there(folder: RunFolder, order: GradingOrder) -> None:
    """What credit is computed from has to be there: a slip in a model's name must not become a grader of the run."""
    side = SideTables(folder)
    for table, id, _ in order.folders():
        there = [other for name, other in side.tables() if name == table]
        if table in ("grades", "summaries") and id not in there:
            has = f"the run has: {', '.join(there)}" if there else "the run has none"
            raise UsageError(f"--credit-only: no {table} by {id}; {has}")


def _check_retries(order: GradingOrder, late: LateFlags) -> None:
    if late.credit_only and (late.retry_ungraded or late.retry_degraded):
        which = "ungraded" if late.retry_ungraded else "degraded"
        raise UsageError(f"--credit-only asks no model: leave --retry-{which} out")
    if late.retry_ungraded and order.grader is None:
        raise UsageError("--retry-ungraded wants the grader: give --grade and its model")
    if late.retry_degraded and order.summarizer is None:
        raise UsageError("--retry-degraded wants the summarizer: give --summarize llm and its model")


def _read_feedback(path: Path | None) -> tuple[FeedbackRow, ...]:
    """Rows without a time get that of the file: about when they were said."""
    if path is None:
        return ()
    try:
        return parse_feedback(path.read_text(encoding="utf-8"), datetime.fromtimestamp(path.stat().st_mtime, UTC))
    except OSError as error:
        raise UsageError(f'--feedback "{path}": {unreadable(error)}') from None
    except UnicodeDecodeError as error:
        raise UsageError(f'--feedback "{path}" is not UTF-8 text: {error}') from None
