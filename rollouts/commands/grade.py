"""`rollouts grade`: grades, summarizes and credits what is owed of a run that was played, beside whatever it has."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from grading.feedback import FeedbackRow, parse_feedback
from grading.lines import add_owed
from grading.order import GradingOrder
from grading.owed import Owed, find_owed
from grading.said import Said, add_feedback, said_with
from rollouts.commands.dry_run import grading_plan, grading_plan_lines, played_work
from rollouts.commands.ending import Asked, End, Ending, close, current_manifest, done, last_words, say, side_end
from rollouts.commands.flags import GradingFlags
from rollouts.commands.grading_order import make_order
from rollouts.commands.holding import held, last_moment
from rollouts.commands.judging import NOTHING_OWED, Judging, Watch, check_endpoint, counts_of, owed_words
from rollouts.commands.judging import ready as side_ready
from rollouts.commands.pools import Place
from rollouts.config import RunConfig, load_configs
from rollouts.errors import UsageError
from rollouts.evidence.table import print_results
from rollouts.grading_config import LATE_GRADERS, GradingConfig
from rollouts.progress import Counts, Launch, Reporter, make_reporter
from rollouts.records import Unit
from rollouts.run.lease import Lease
from rollouts.run.location import find_run
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_survey import survey_sides
from rollouts.run.side_tables import SideTables
from rollouts.run.survey import Survey
from rollouts.signals import Signals

_SWITCH = Parameter(negative=())
AGAIN = "give the same command again"


@dataclass(frozen=True)
class _Task:
    """What the command is to do. `credit_only`: no grade is made, and no model asked."""

    folder: RunFolder
    config: GradingConfig
    order: GradingOrder
    feedback: tuple[FeedbackRow, ...] = ()
    credit_only: bool = False

    def with_feedback(self, rows: tuple[FeedbackRow, ...]) -> _Task:
        return replace(self, feedback=rows)

    def retrying(self, ungraded: bool, degraded: bool) -> _Task:
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


def grade(  # noqa: PLR0913  the flags of the command
    run: str,
    config: Path | None = None,
    /,
    *,
    flags: GradingFlags | None = None,
    feedback: Path | None = None,
    retry_ungraded: Annotated[bool, _SWITCH] = False,
    retry_degraded: Annotated[bool, _SWITCH] = False,
    credit_only: Annotated[bool, _SWITCH] = False,
    pool: str | None = None,
    address: str | None = None,
    dry_run: Annotated[bool, _SWITCH] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Grade what is owed of a run that was played; what others graded stays beside it.

    Another model, language or presentation is another grader with grades of its own; other weights or another rule
    are other credit from the same grades, without a call. The same command again goes on where it was.

    Parameters
    ----------
    run
        The run's folder: a path, a URI, or its id alone under ./runs.
    config
        A TOML file of settings. Flags win over it, it wins over DOOM_ROLLOUTS_… variables.
    feedback
        JSON lines of what people said: episode_id, channel, polarity, magnitude, text, time. Stored in the run; those
        episodes are graded again, beside the old grades.
    retry_ungraded
        Ask once more for the gradings that have no score.
    retry_degraded
        Ask once more for the summary entries that have no score. Grades that read the old ones are given anew beside
        the old grades, and credit by summaries that could not be given is.
    credit_only
        Compute credit from the stored grades of the grader that the flags name; no model is asked.
    pool
        Where models are called: ray (default), or local: this process.
    address
        Ray cluster to join (none: start one on this machine).
    dry_run
        Show the calls, tokens and cost of what is owed; write and send nothing.
    as_json
        JSON lines on stdout: launch first, done last.
    """
    given = {**(flags or GradingFlags()).given(), "pool": pool, "address": address}
    where, grading = load_configs(given, config, graders=LATE_GRADERS)
    may_call = not (credit_only or dry_run)
    task = _task(find_run(run), grading, may_call, credit_only)
    _check_retries(task, retry_ungraded, retry_degraded)
    if credit_only:
        _check_there(task.folder, task.order)
    task = task.with_feedback(_read_feedback(feedback)).retrying(retry_ungraded, retry_degraded)
    if dry_run:
        return _show(task, as_json)
    reporter = make_reporter(as_json, sys.stdout, sys.stderr)
    try:
        ending = _do(task, where, reporter)
        reporter.done(done(task.folder, ending))
    finally:
        reporter.close()
    if ending.manifest is not None and not as_json:
        print_results(ending.manifest, Console())
    for line in last_words(ending, AGAIN):
        say(line)
    return ending.exit_code


def _task(folder: RunFolder, config: GradingConfig, may_call: bool, credit_only: bool) -> _Task:
    folder.read_record()
    order = make_order(config, folder.run_id, folder.storage.uri, may_call)
    if order is None:
        raise UsageError("there is nothing to do: give --grade heuristic, llm or explicit, or --summarize llm")
    if credit_only and order.credit is None:
        raise UsageError("--credit-only wants a rule: give --credit events, summary or constant:x")
    return _Task(folder, config, order, credit_only=credit_only)


def _check_there(folder: RunFolder, order: GradingOrder) -> None:
    """What credit is computed from has to be there: a slip in a model's name must not become a grader of the run."""
    side = SideTables(folder)
    for table, id, _ in order.folders():
        there = [other for name, other in side.tables() if name == table]
        if table in ("grades", "summaries") and id not in there:
            has = f"the run has: {', '.join(there)}" if there else "the run has none"
            raise UsageError(f"--credit-only: no {table} by {id}; {has}")


def _check_retries(task: _Task, ungraded: bool, degraded: bool) -> None:
    if task.credit_only and (ungraded or degraded):
        raise UsageError(f"--credit-only asks no model: leave --retry-{'ungraded' if ungraded else 'degraded'} out")
    if ungraded and task.order.grader is None:
        raise UsageError("--retry-ungraded wants the grader: give --grade and its model")
    if degraded and task.order.summarizer is None:
        raise UsageError("--retry-degraded wants the summarizer: give --summarize llm and its model")


def _read_feedback(path: Path | None) -> tuple[FeedbackRow, ...]:
    """Rows without a time get that of the file: about when they were said."""
    if path is None:
        return ()
    try:
        return parse_feedback(path.read_text(encoding="utf-8"), datetime.fromtimestamp(path.stat().st_mtime, UTC))
    except OSError as error:
        raise UsageError(f'--feedback "{path}": {error.strerror or error}') from None
    except UnicodeDecodeError as error:
        raise UsageError(f'--feedback "{path}" is not UTF-8 text: {error}') from None


def _do(task: _Task, where: RunConfig, reporter: Reporter) -> Ending:
    plan, survey = task.folder.read_plan(), task.folder.survey()
    owed = task.owed(plan, survey)
    check_endpoint(task.order, owed, plays=bool(task.feedback))
    if not task.feedback and not owed.anything:
        manifest = current_manifest(task.folder, task.asked.weights)
        if manifest is not None and not survey_sides(task.folder, survey.committed).unfit:
            reporter.launch(_launch(task, plan, survey, NOTHING_OWED, where.pool), _counts(plan, survey))
            return Ending("complete", _unplayed(plan, survey), manifest, asked=task.asked)
    with (
        Signals(lambda _: last_moment(AGAIN)) as signals,
        Place(where.pool, where.address) as place,
    ):
        lease = task.folder.acquire()
        with held(task.folder, lease):
            end = _judge(task, lease, place, signals, reporter)
            place.close()
            return close(task.folder, lease, _unplayed(plan, survey), task.asked, end)


def _judge(task: _Task, lease: Lease, place: Place, signals: Signals, reporter: Reporter) -> End:
    folder, judging = task.folder, task.judging
    survey, plan = folder.recover(lease), folder.read_plan()
    for words in side_ready(judging, folder, lease, survey):
        reporter.note(words)
    if task.feedback:
        new = add_feedback(folder, lease, task.feedback, plan)
        reporter.note(f"{new:,} of {len(task.feedback):,} rows of feedback are new")
    owed = task.owed(plan, survey)
    reporter.launch(_launch(task, plan, survey, owed, place.kind), _counts(plan, survey))
    if not owed.anything:
        return End("complete")
    wish, watch = judging.wish(folder), Watch(reporter, _counts(plan, survey))
    with place.side_pipeline(wish, folder, lease, signals) as pipeline:
        add_owed(pipeline, owed, wish)
        end = side_end(pipeline.finish(watch.tell), signals.received)
        return replace(end, gradings_left=max(0, owed.gradings - watch.counts.side.gradings))


def _launch(task: _Task, plan: tuple[Unit, ...], survey: Survey, owed: Owed, pool: str) -> Launch:
    return Launch(
        run_id=task.folder.run_id,
        location=task.folder.describe(),
        resumed=True,
        units=len(plan),
        units_owed=0,
        episodes=_counts(plan, survey).episodes,
        episodes_owed=0,
        pool=pool,
        actors=0,
        judging=owed_words(task.order, owed),
    )


def _counts(plan: Iterable[Unit], survey: Survey) -> Counts:
    """Of the rows that are there: a failed episode that is still to be played again counts as a failed one."""
    return counts_of((unit for unit in plan if unit.number in survey.committed), survey)


def _unplayed(plan: Iterable[Unit], survey: Survey) -> int:
    return sum(len(unit.episodes) for unit in plan if unit.number not in survey.committed)


def _show(task: _Task, as_json: bool) -> int:
    """What is owed once the feedback in hand is stored, and what it takes at most."""
    plan, survey = task.folder.read_plan(), task.folder.survey()
    said = said_with(task.folder, task.feedback, plan)
    owed = task.owed(plan, survey, said)
    told = {
        "run_id": task.folder.run_id,
        "location": task.folder.describe(),
        "grader_id": task.order.grader_id,
        "summarizer_id": task.order.summarizer_id,
        "credit_id": task.order.credit_id,
        "gradings_owed": owed.gradings,
        "summaries_owed": owed.summary_episodes,
        "grading": grading_plan(task.order, played_work(task.order, task.folder, owed, said)),
    }
    if as_json:
        print(json.dumps({"event": "plan", **told}))
    else:
        _print(told, owed_words(task.order, owed))
    return 0


def _print(told: Mapping[str, Any], words: tuple[str, ...]) -> None:
    console = Console()
    lines = [f"{told['run_id']}: {', '.join(words) or 'nothing is owed'}", *grading_plan_lines(told["grading"])]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
