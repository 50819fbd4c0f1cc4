"""Starts or resumes a run's folder, and drives the pool over what is owed."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.commands.preparing import Prepared
from rollouts.commits import RunCommits
from rollouts.driver import Committed, Outcome, Remark, RunEvent, drive
from rollouts.identity import check_identity
from rollouts.plan import extend_plan, make_plan, owed
from rollouts.pools.patience import Limits
from rollouts.pools.pool import Pool
from rollouts.progress import Counts, Launch, Reporter
from rollouts.records import Unit
from rollouts.run.lease import Lease
from rollouts.run.run_record import make_run_record
from rollouts.run.survey import Survey
from rollouts.signals import Signals


@dataclass(frozen=True)
class Standing:
    """How far a run is: its plan (with what is to be appended), and what of it is committed."""

    started: bool
    plan: tuple[Unit, ...]
    added: tuple[Unit, ...]
    survey: Survey

    @property
    def owed(self) -> list[Unit]:
        return owed((*self.plan, *self.added), self.survey.committed)

    @property
    def counts(self) -> Counts:
        commits = self.survey.committed.values()
        return Counts(episodes=sum(c.episodes for c in commits), failed=sum(len(c.failures) for c in commits))

    @property
    def episodes(self) -> int:
        return sum(len(unit.episodes) for unit in (*self.plan, *self.added))


@dataclass(frozen=True)
class Ready:
    """A run whose folder is in order, under this driver's lease."""

    prepared: Prepared
    standing: Standing
    lease: Lease


@dataclass(frozen=True)
class Played:
    """How the driver ended, and how far the run is now."""

    outcome: Outcome
    counts: Counts


NOTHING = Survey(committed={}, damaged={}, orphans=(), temporary=())


def look(prepared: Prepared) -> Standing:
    """What there is and what is owed. Reads only. Errors: `UsageError` where the run has another identity."""
    folder, config = prepared.folder, prepared.config
    if not folder.started():
        return Standing(False, (), make_plan(prepared.groups, config.episodes_per_unit), NOTHING)
    check_identity(folder.read_record()["identity"], prepared.identity, prepared.run_id)
    plan, survey = folder.read_plan(), folder.survey()
    retry = _failed(survey) if config.retry_failed else {}
    return Standing(True, plan, extend_plan(plan, prepared.groups, config.episodes_per_unit, retry), survey)


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
    return Ready(prepared, Standing(standing.started, folder.read_plan(), (), folder.recover(lease)), lease)


def play(ready: Ready, pool: Pool, reporter: Reporter, signals: Signals) -> Played:
    """Drive the pool until nothing is owed or something ends it."""
    counts = ready.standing.counts

    def tell(event: RunEvent) -> None:
        nonlocal counts
        if isinstance(event, Remark):
            reporter.note(event.text)
        elif isinstance(event, Committed):
            report = event.report
            failed = sum(failure is not None for failure in report.failures)
            counts = counts.plus(len(report.failures), failed, report.n_decisions, report.n_out_of_schema)
            reporter.counts(counts)

    outcome = drive(
        ready.standing.owed,
        pool,
        RunCommits(ready.prepared.folder, ready.lease),
        limits=Limits(unit_s=ready.prepared.config.unit_timeout_s),
        signals=signals,
        on_event=tell,
    )
    return Played(outcome, counts)


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
    )
