"""`rollouts grade`: grades, summarizes and credits what is owed of a run that was played, beside whatever it has."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from grading.grade import parse_weights
from grading.lines import add_owed
from grading.owed import Owed
from grading.said import add_feedback, said_with
from rollouts.commands.dry_run import grading_plan, grading_plan_lines, played_work
from rollouts.commands.ending import (
    End,
    Ending,
    close,
    current_manifest,
    done,
    last_words,
    left_of,
    say,
    side_end,
)
from rollouts.commands.endpoints import judging_callers, note_endpoints
from rollouts.commands.flags import GradingFlags, LateFlags
from rollouts.commands.grading_task import Task, make_task
from rollouts.commands.holding import held, last_moment
from rollouts.commands.judges import show_judge_card
from rollouts.commands.judging import NOTHING_OWED, Watch, check_endpoint, counts_of, driver_log, owed_words
from rollouts.commands.judging import ready as side_ready
from rollouts.commands.pools import Place
from rollouts.config import RunConfig, load_configs
from rollouts.evidence.table import print_results
from rollouts.grading_config import LATE_GRADERS
from rollouts.naming import counted
from rollouts.progress import Counts, Launch, Reporter, make_reporter
from rollouts.records import Unit
from rollouts.run.lease import Lease
from rollouts.run.location import find_run
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_survey import survey_sides
from rollouts.run.survey import Survey
from rollouts.signals import Signals

_SWITCH = Parameter(negative=())
AGAIN = "give the same command again"


def grade(  # noqa: PLR0913  the flags of the command
    run: str,
    config: Path | None = None,
    /,
    *,
    flags: GradingFlags | None = None,
    late: LateFlags | None = None,
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
    dry_run
        Show the calls, tokens and cost of what is owed; write and send nothing.
    as_json
        JSON lines on stdout: launch first, done last.
    """
    late = late or LateFlags()
    given = {
        **(flags or GradingFlags()).given(),
        "pool": late.pool,
        "address": late.address,
        "metrics_port": late.metrics_port,
    }
    where, grading = load_configs(given, config, graders=LATE_GRADERS)
    if late.judge_card:
        return show_judge_card(find_run(run), parse_weights(grading.weights), as_json)
    task = make_task(find_run(run), grading, late, may_call=not dry_run)
    return _show(task, as_json) if dry_run else _carry_out(task, where, as_json)


def _carry_out(task: Task, where: RunConfig, as_json: bool) -> int:
    """Do it, and tell; the exit code."""
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


def _do(task: Task, where: RunConfig, reporter: Reporter) -> Ending:
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
        Place(where.pool, where.address, where.metrics_port) as place,
    ):
        lease = task.folder.acquire()
        with held(task.folder, lease):
            end = _judge(task, lease, place, signals, reporter)
            place.close()
            return close(task.folder, lease, _unplayed(plan, survey), task.asked, end)


def _judge(task: Task, lease: Lease, place: Place, signals: Signals, reporter: Reporter) -> End:
    folder, judging = task.folder, task.judging
    survey, plan = folder.recover(lease), folder.read_plan()
    notes = [*side_ready(judging, folder, lease, survey)]
    if task.feedback:
        new = add_feedback(folder, lease, task.feedback, plan)
        are = "is" if new == 1 else "are"
        notes.append(f"{new:,} of {counted(len(task.feedback), 'row')} of feedback {are} new")
    owed = task.owed(plan, survey)
    notes += note_endpoints(SideFolder(folder), lease, judging_callers(task.order) if owed.asks_models else ())
    reporter.launch(_launch(task, plan, survey, owed, place.kind), _counts(plan, survey))
    for words in notes:
        reporter.note(words)
    if not owed.anything:
        return End("complete")
    wish = judging.wish(folder)
    with place.side_pipeline(wish, folder, lease, signals) as pipeline:
        log = driver_log(folder, lease)
        watch = Watch(reporter, _counts(plan, survey), log, place.meters(folder.run_id), place.calls)
        add_owed(pipeline, owed, wish)
        end = side_end(pipeline.finish(watch.tell), signals.received)
        return replace(end, left=left_of(owed, watch.counts))


def _launch(task: Task, plan: tuple[Unit, ...], survey: Survey, owed: Owed, pool: str) -> Launch:
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


def _show(task: Task, as_json: bool) -> int:
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
