"""What grading takes of a command that drives it: what is owed, the side tables in order, and the words for people."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from grading.grader import GraderSettings
from grading.lines import SideWish
from grading.order import GradingOrder
from grading.owed import Owed, find_owed
from grading.pipeline import SideEvent, SidePipeline
from grading.work import declare
from rollouts.calls.limits import LimiterStatus
from rollouts.commands.grading_order import limits_of
from rollouts.driver import Committed, Remark, RunEvent, Workers
from rollouts.grading_config import GradingConfig
from rollouts.meters import COMMITTED, NO_METERS, REMARKS, Meters, count_side, put_calls, put_workers
from rollouts.naming import counted
from rollouts.plan import superseding
from rollouts.progress import Counts, Reporter
from rollouts.records import SideReport, Unit, UnitReport
from rollouts.run.feedback_table import FEEDBACK
from rollouts.run.lease import Lease
from rollouts.run.run_folder import TORN, RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.run.survey import Survey
from rollouts.worker_log import WorkerLog

NOTHING_OWED = Owed()


@dataclass(frozen=True)
class Judging:
    """An order of grading with the settings that it came from. `here`: the rollouts' workers grade what they play."""

    order: GradingOrder
    config: GradingConfig
    here: bool = False

    def wish(self, folder: RunFolder) -> SideWish:
        """What to ask a place for, after `ready`: the calls of earlier starts count in the budget."""
        config, spent = self.config, SideFolder(folder).spent()
        return SideWish(
            self.order,
            limits_of(config, spent),
            graders=config.graders,
            summarizers=config.summarizers,
            lanes=config.units_at_once,
            judged_where_played=self.here,
        )

    def owed(self, folder: RunFolder, units: Iterable[Unit], unfit: Collection[str] = ()) -> Owed:
        """What is owed of the committed `units` where parts at the paths `unfit` do not count. Reads only."""
        return find_owed(folder, self.order, tuple(units), unfit=unfit)


def ready(judging: Judging | None, folder: RunFolder, lease: Lease, survey: Survey) -> tuple[str, ...]:
    """Put the side tables of a folder that has been recovered (`survey`) in order, and write down what is asked for and
    what the order's ids stand for. Returns what a person should know: what has been set aside, here and before, and
    what the order cannot tell."""
    side = SideFolder(folder)
    found = side.recover(lease, survey.committed)
    if judging is not None:
        declare(side, lease, judging.order)
    words = set_aside_words(folder, {**survey.damaged, **found.torn, **found.stale, **found.shaken})
    return words if judging is None else (*words, *_repeat_words(judging.order))


def _repeat_words(order: GradingOrder) -> tuple[str, ...]:
    """Repeats measure how far a grader varies, which it hardly does where the likeliest word is taken each time."""
    asks_alike = isinstance(order.grader, GraderSettings) and order.grader.temperature == 0
    if order.repeats == 1 or not asks_alike:
        return ()
    return (
        f"--repeat {order.repeats} at temperature 0: a model that always takes the likeliest word says the same again, "
        "so the spread means little; --grader-temperature 0.7 (another grader) lets it vary",
    )


def set_aside_words(folder: RunFolder, damaged: Mapping[str, str]) -> tuple[str, ...]:
    """One line on damaged files (path → what is wrong), which names the first, and one on those that only people can
    give again; none where there are none."""
    said = {path: fault for path, fault in damaged.items() if path.startswith(folder.path(FEEDBACK, ""))}
    made = {path: fault for path, fault in damaged.items() if path not in said}
    again = "to be given again with rollouts grade --feedback"
    return (*_set_aside_line(folder, made, "to be made again"), *_set_aside_line(folder, said, again))


def _set_aside_line(folder: RunFolder, damaged: Mapping[str, str], again: str) -> tuple[str, ...]:
    if not damaged:
        return ()
    path, fault = next(iter(damaged.items()))
    others = f", and {len(damaged) - 1:,} more files" if len(damaged) > 1 else ""
    name = path.removeprefix(f"{folder.run_id}/")
    return (f"set aside in {folder.describe(TORN)}, {again}: {name} ({fault}){others}",)


def check_endpoint(order: GradingOrder | None, owed: Owed, plays: bool = False) -> None:
    """Where a model will be asked, its endpoint must be there. Errors: `UsageError`."""
    if order is not None and order.endpoint is not None and (plays or owed.asks_models):
        order.endpoint.check_listens()


def owed_words(order: GradingOrder | None, owed: Owed) -> tuple[str, ...]:
    """What of earlier episodes is still to be graded."""
    if order is None or not owed.anything:
        return ()
    words = [counted(owed.gradings, f"{order.source} grading")] if owed.gradings else []
    if isinstance(order.grader, GraderSettings) and owed.gradings:
        words = [f"{words[0]} by {order.grader.model}"]
    words += [f"{counted(owed.summary_episodes, 'episode')} to summarize"] if owed.summary_episodes else []
    words += [f"credit of {counted(len(owed.credit), 'unit')}"] if owed.credit else []
    return tuple(words)


def counts_of(units: Iterable[Unit], survey: Survey) -> Counts:
    """How far the `units` of a plan are, each episode once: the last unit that plans it says whether it is there."""
    planned = tuple(units)
    latest = superseding(planned, {unit.number for unit in planned})
    there = {key: number for key, number in latest.items() if number in survey.committed}
    failures = {(f.episode_id, number) for number, commit in survey.committed.items() for f in commit.failures}
    return Counts(episodes=len(there), failed=len(failures & there.items()))


class Watch:
    """Tells a reporter, and who else watches, what pools do. `counts` is how far the command is; `calls` looks at the
    calls to models."""

    def __init__(
        self,
        reporter: Reporter,
        counts: Counts,
        log: WorkerLog,
        meters: Meters = NO_METERS,
        calls: Callable[[], LimiterStatus | None] = lambda: None,
    ) -> None:
        self.counts = counts
        self._reporter = reporter
        self._log = log
        self._meters = meters
        self._calls = calls

    def look(self, pipeline: SidePipeline) -> None:
        """Take in what has happened since the last look; never waits."""
        for event in pipeline.events():
            self.tell(event)

    def tell(self, event: SideEvent) -> None:
        match event.event:
            case Remark(text):
                self._reporter.note(f"{event.stage}: {text}")
            case Committed(_, report) if isinstance(report, SideReport):
                self.add(self.counts.plus_side(report.counts))
            case _:
                pass
        self.keep(event.stage, event.event)

    def keep(self, pool: str, event: RunEvent) -> None:
        """Let an event of the pool called so be found in the log and in numbers."""
        meters = self._meters
        match event:
            case Remark(text):
                self._log.remark(pool, text)
                meters.count(REMARKS, 1, pool=pool)
            case Committed(_, report):
                meters.count(COMMITTED, 1, pool=pool)
                side = report.side if isinstance(report, UnitReport) else report
                if isinstance(side, SideReport):
                    count_side(meters, pool, side.counts)
            case Workers() if meters is not NO_METERS:
                put_workers(meters, pool, event.live, event.playing, event.waiting)
                put_calls(meters, self._calls())

    def note(self, text: str) -> None:
        self._reporter.note(text)

    def add(self, counts: Counts) -> None:
        self.counts = counts
        self._reporter.counts(counts)


def driver_log(folder: RunFolder, lease: Lease) -> WorkerLog:
    """The log of the process that leads a run; each start has one of its own."""
    return WorkerLog(folder.storage, folder.run_id, f"driver-e{lease.epoch}", socket.gethostname())
