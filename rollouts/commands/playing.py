"""Starts or resumes a run's folder, and drives rollouts and grading over what is owed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from grading.lines import add_owed
from grading.owed import Owed
from grading.pipeline import SideOutcome, SidePipeline
from rollouts.calls.limits import Limits as CallLimits
from rollouts.commands.endpoints import Caller, judging_callers, note_endpoints, policy_callers
from rollouts.commands.grading_order import limits_of
from rollouts.commands.judging import NOTHING_OWED, Judging, Watch, counts_of, driver_log, owed_words
from rollouts.commands.judging import ready as side_ready
from rollouts.commands.policy_check import Checked, keep, spending_of
from rollouts.commands.pools import Place
from rollouts.commands.preparing import Prepared, judged_where_played
from rollouts.commits import RunCommits
from rollouts.driver import Committed, Outcome, Remark, RunEvent, drive
from rollouts.errors import LeaseError
from rollouts.identity import check_identity
from rollouts.plan import episode_ids, extend_plan, make_plan, owed
from rollouts.policies.model_settings import PROVIDERS
from rollouts.policy_calls import CallLog, calls_id, calls_identity
from rollouts.pools.patience import Limits
from rollouts.pools.pool import Pool
from rollouts.progress import Counts, Launch, Reporter
from rollouts.records import Unit, UnitReport
from rollouts.run.lease import Lease
from rollouts.run.run_record import make_run_record
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_survey import survey_sides
from rollouts.run.side_tables import CALLS
from rollouts.run.survey import Survey
from rollouts.signals import Signals


@dataclass(frozen=True)
class Standing:
    """How far a run is: its plan (with what is to be appended), what of it is committed, and what of that is still to
    be graded (`side`). `unfit`: parts of side tables that do not count, and why."""

    started: bool
    plan: tuple[Unit, ...]
    added: tuple[Unit, ...]
    survey: Survey
    side: Owed = NOTHING_OWED
    unfit: Mapping[str, str] = field(default_factory=dict)

    @property
    def anything_owed(self) -> bool:
        return bool(self.owed) or self.side.anything

    @property
    def owed(self) -> list[Unit]:
        return owed((*self.plan, *self.added), self.survey.committed)

    @property
    def counts(self) -> Counts:
        """A failed episode that is to be played again is not there yet."""
        return counts_of((*self.plan, *self.added), self.survey)

    @property
    def episodes(self) -> int:
        """Each once, however often it was, or is to be, tried."""
        return len({key for unit in (*self.plan, *self.added) for key in episode_ids(unit)})


@dataclass(frozen=True)
class Ready:
    """A run whose folder is in order, under this driver's lease; `words` say what had to be set aside."""

    prepared: Prepared
    standing: Standing
    lease: Lease
    judging: Judging | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Played:
    """How the rollouts ended, and their grading (None where there was none), and how far the run is now."""

    outcome: Outcome
    counts: Counts
    side: SideOutcome | None = None
    signal: int | None = None


ROLLOUTS = "rollouts"
NOTHING = Survey(committed={}, damaged={}, orphans=(), temporary=())


def look(prepared: Prepared) -> Standing:
    """What there is and what is owed. Reads only. Errors: `UsageError` where the run has another identity."""
    folder, config = prepared.folder, prepared.config
    if not folder.started():
        return Standing(False, (), make_plan(prepared.groups, config.episodes_per_unit), NOTHING)
    check_identity(folder.read_own_record()["identity"], prepared.identity, prepared.run_id)
    plan, survey = folder.read_plan(), folder.survey()
    retry = _failed(survey) if config.retry_failed else {}
    added = extend_plan(plan, prepared.groups, config.episodes_per_unit, retry)
    unfit = survey_sides(folder, survey.committed).unfit
    return Standing(True, plan, added, survey, _side_owed(prepared, plan, survey, unfit), unfit)


def judging_of(prepared: Prepared) -> Judging | None:
    """How the run's episodes are graded."""
    order = prepared.judging
    return None if order is None else Judging(order, prepared.grading, judged_where_played(order))


def _side_owed(prepared: Prepared, plan: tuple[Unit, ...], survey: Survey, unfit: Collection[str] = ()) -> Owed:
    judging = judging_of(prepared)
    committed = [unit for unit in plan if unit.number in survey.committed]
    return NOTHING_OWED if judging is None else judging.owed(prepared.folder, committed, unfit)


def _failed(survey: Survey) -> dict[str, int]:
    """Episode id → the last committed unit that recorded its failure."""
    return {f.episode_id: number for number, commit in sorted(survey.committed.items()) for f in commit.failures}


def start(prepared: Prepared, lease: Lease) -> Ready:
    """Look again, now as the one driver, write what the start takes, and put the folder in order."""
    folder, standing = prepared.folder, look(prepared)
    first = folder.read_record() if standing.started else None
    record = make_run_record(prepared.config, prepared.facts, prepared.run_id, first)
    if not standing.started:
        folder.create(lease, record, standing.added)
    elif standing.added or (first and first["identity"] != prepared.identity):
        folder.grow(lease, record, standing.added)
    survey, plan, judging = folder.recover(lease), folder.read_plan(), judging_of(prepared)
    words = side_ready(judging, folder, lease, survey)
    _declare_callers(prepared, lease)
    now = Standing(standing.started, plan, (), survey, _side_owed(prepared, plan, survey))
    moved = note_endpoints(SideFolder(folder), lease, _callers(prepared, now))
    return Ready(prepared, now, lease, judging, (*words, *moved))


def _callers(prepared: Prepared, standing: Standing) -> list[Caller]:
    """Whose models will be asked: the policies' where anything is to be played, the judges' then and for the rest."""
    calls, players = prepared.order.calls, prepared.facts.descriptions.values()
    plays = bool(standing.owed)
    return [
        *(policy_callers(players, calls.endpoint.base_url) if calls is not None and plays else ()),
        *(judging_callers(prepared.judging) if plays or standing.side.asks_models else ()),
    ]


def _declare_callers(prepared: Prepared, lease: Lease) -> None:
    """Write down whose calls those of the policies will be."""
    side = SideFolder(prepared.folder)
    for who in prepared.facts.descriptions.values():
        if who.provider in PROVIDERS:
            side.declare(lease, CALLS, calls_id(who), calls_identity(who))


def play(  # noqa: PLR0913, PLR0917  the last two have defaults
    ready: Ready,
    pool: Pool | None,
    reporter: Reporter,
    signals: Signals,
    place: Place | None = None,
    checked: tuple[Checked, ...] = (),
) -> Played:
    """Play and grade until nothing is owed or something ends it. `pool` is None where nothing is to be played; `place`
    is where grading and calls to models happen, needed where there is any; `checked` are calls that were made ahead."""
    judging = ready.judging
    if ready.prepared.order.calls is not None and pool is not None:
        assert place is not None, "calls to models need a place"
        place.begin_calls(_limits(ready, checked))
    if judging is None:
        watch = _watch(ready, reporter, place)
        outcome = _roll(ready, pool, watch, signals)
        return Played(outcome, watch.counts, None, signals.received)
    assert place is not None, "grading needs a place"
    folder = ready.prepared.folder
    wish = judging.wish(folder)
    with place.side_pipeline(wish, folder, ready.lease, signals) as pipeline:
        add_owed(pipeline, ready.standing.side, wish)
        watch = _watch(ready, reporter, place)
        outcome = _roll(ready, pool, watch, signals, pipeline)
        side = None
        if not signals.received and not isinstance(outcome.error, LeaseError):
            side = pipeline.finish(watch.tell)
    return Played(outcome, watch.counts, side, signals.received)


def _watch(ready: Ready, reporter: Reporter, place: Place | None) -> Watch:
    """Once the pools are made."""
    log = driver_log(ready.prepared.folder, ready.lease)
    if place is None:
        return Watch(reporter, ready.standing.counts, log)
    return Watch(reporter, ready.standing.counts, log, place.meters(ready.prepared.run_id), place.calls)


def limits_so_far(prepared: Prepared, standing: Standing) -> CallLimits:
    """What models may be called, after what earlier starts have spent; what a killed one left on file comes later."""
    spent = SideFolder(prepared.folder, standing.unfit).spent() if standing.started else None
    return limits_of(prepared.grading, spent)


def _limits(ready: Ready, checked: tuple[Checked, ...]) -> CallLimits:
    """The same under the lease: now the calls that were made ahead are on file, and count."""
    prepared, folder = ready.prepared, ready.prepared.folder
    if checked:
        keep(checked, CallLog(folder), ready.standing.owed[0], ready.lease.next_attempt())
    return limits_of(prepared.grading, SideFolder(folder).spent() + spending_of(checked))


NOTHING_TO_PLAY = Outcome("complete", committed=0, owed=0, failed_episodes=0)


def _roll(
    ready: Ready, pool: Pool | None, watch: Watch, signals: Signals, pipeline: SidePipeline | None = None
) -> Outcome:
    """Drive the rollouts; `pipeline` judges what is committed."""
    if pool is None:
        return NOTHING_TO_PLAY

    def tell(event: RunEvent) -> None:
        match event:
            case Remark(text):
                watch.note(text)
            case Committed(unit, UnitReport() as report):
                watch.add(_counted(watch.counts, report))
                if pipeline is not None:
                    pipeline.feed(unit)
        watch.keep(ROLLOUTS, event)
        if pipeline is not None:
            watch.look(pipeline)

    return drive(
        ready.standing.owed,
        pool,
        RunCommits(ready.prepared.folder, ready.lease),
        limits=Limits(unit_s=ready.prepared.config.unit_timeout_s),
        signals=signals,
        on_event=tell,
    )


def _counted(counts: Counts, report: UnitReport) -> Counts:
    failed = sum(failure is not None for failure in report.failures)
    counts = counts.plus(len(report.failures), failed, report.n_decisions, report.n_out_of_schema)
    return counts.plus_side(report.side.counts) if report.side else counts


def launch_of(prepared: Prepared, standing: Standing, actors: int) -> Launch:
    """What is about to be played, by how many."""
    units = standing.owed
    return Launch(
        run_id=prepared.run_id,
        location=prepared.folder.describe(),
        resumed=standing.started,
        units=len(standing.plan),
        units_owed=len(units),
        episodes=standing.episodes,
        episodes_owed=sum(len(unit.episodes) for unit in units),
        pool=prepared.config.pool,
        actors=actors,
        judging=owed_words(prepared.judging, standing.side),
    )
