"""How far a run is, from its folder alone: while it goes on, and after everything else of it is gone.

Reads what each committed unit's `episodes` shard says; no row of `steps`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollouts.evidence.committed_run import CommittedRun, GroupName
from rollouts.evidence.manifest import read_manifest
from rollouts.naming import counted
from rollouts.run.lease import EXPIRY_S, Holder, read_holder
from rollouts.run.run_folder import RunFolder

RUNNING, COMPLETE, INTERRUPTED = "running", "complete", "interrupted"


@dataclass(frozen=True, slots=True)
class Driver:
    """Who has the run now, or had it last. `lives`: it does, as far as can be seen from here."""

    pid: int
    host: str
    heartbeat_s: float
    lives: bool

    @classmethod
    def of(cls, holder: Holder, now: float) -> Driver:
        """On this machine its process says whether it lives, elsewhere a heartbeat of the last 60 s does."""
        age_s = now - holder.heartbeat
        lives = holder.is_alive_here() if holder.is_here() else abs(age_s) < EXPIRY_S
        return cls(holder.pid, holder.host, age_s, lives and not holder.released)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Episodes of one (scenario, rubric, policy). What is neither completed nor failed is owed."""

    group: GroupName
    planned: int
    completed: int
    failed: int

    @property
    def owed(self) -> int:
        return self.planned - self.completed - self.failed


@dataclass(frozen=True)
class RunStatus:
    """`state` is `running`, or what the run ended with (`complete`, `interrupted`, `budget`, `stopped`), with the
    `cause` of a stop. `failures`: (stage, cause) → episodes. `manifest` is empty where there is none that can be read.
    """

    run: CommittedRun
    manifest: Mapping[str, Any]
    state: str
    cause: str | None
    driver: Driver | None
    groups: tuple[GroupStatus, ...]
    failures: Mapping[tuple[str, str], int]

    @property
    def owed(self) -> int:
        return sum(group.owed for group in self.groups)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run_id": self.run.folder.run_id,
            "location": self.run.folder.describe(),
            "state": self.state,
            "cause": self.cause,
            "driver": None if self.driver is None else _plain(self.driver),
            "units": {"planned": len(self.run.plan), "committed": len(self.run.committed)},
            "episodes": _sums(self.groups),
            "groups": [{**_named(group.group), **_sums([group])} for group in self.groups],
            "failures": [
                {"stage": stage, "cause": cause, "episodes": n} for (stage, cause), n in self.failures.items()
            ],
        }


def read_status(folder: RunFolder, now: float | None = None) -> RunStatus:
    """As it lies there now. Errors: `UsageError` where there is no run; `StorageError`."""
    record, plan = folder.read_record(), folder.read_plan()
    commits = folder.survey().committed
    run = CommittedRun(folder, record, plan, frozenset(commits))
    found = {(f.episode_id, unit): (f.stage, f.cause) for unit, commit in commits.items() for f in commit.failures}
    failed = {episode: found[episode, unit] for episode, unit in run.latest.items() if (episode, unit) in found}
    groups = _groups(run, failed)
    holder = read_holder(folder.storage, folder.path("lease.json"))
    driver = None if holder is None else Driver.of(holder, time.time() if now is None else now)
    manifest = _manifest(run)
    state, cause = _state(manifest, driver, sum(group.owed for group in groups))
    return RunStatus(run, manifest, state, cause, driver, groups, dict(Counter(failed.values()).most_common()))


def status_lines(status: RunStatus) -> list[str]:
    """For people."""
    told = status.as_dict()
    units = f"{told['units']['committed']:,} of {counted(told['units']['planned'], 'unit')} committed"
    lines = [f"{told['location']}: {told['state']}" + (f" ({status.cause})" if status.cause else "")]
    lines += [_driver_line(status.driver)] if status.driver and status.state == RUNNING else []
    lines.append(f"episodes: {_counts(told['episodes'])}; {units}")
    lines += [
        f"  {group['scenario']} {group['rubric']} {group['policy']}: {_counts(group)}" for group in told["groups"]
    ]
    lines += [f"failed at stage {one['stage']}: {one['cause']} ({one['episodes']:,})" for one in told["failures"]]
    return lines


def _groups(run: CommittedRun, failed: Mapping[str, object]) -> tuple[GroupStatus, ...]:
    names = {unit.number: (unit.scenario, unit.rubric, unit.policy) for unit in run.plan}
    done = Counter(names[unit] for unit in run.latest.values())
    lost = Counter(names[run.latest[episode]] for episode in failed)
    return tuple(
        GroupStatus(facts.name, facts.n_planned, done[facts.name] - lost[facts.name], lost[facts.name])
        for facts in run.groups()
    )


def _manifest(run: CommittedRun) -> Mapping[str, Any]:
    try:
        return read_manifest(run) or {}
    except ValueError:
        return {}


def _state(manifest: Mapping[str, Any], driver: Driver | None, owed: int) -> tuple[str, str | None]:
    """A manifest of before the last start may say more than is true now: then it was interrupted since."""
    if driver is not None and driver.lives:
        return RUNNING, None
    outcome = manifest.get("outcome") or {}
    state = str(outcome.get("state") or INTERRUPTED)
    return (INTERRUPTED, None) if owed and state == COMPLETE else (state, outcome.get("cause"))


def _driver_line(driver: Driver) -> str:
    return f"driver: process {driver.pid} on {driver.host}, last heard of {max(0.0, driver.heartbeat_s):.0f} s ago"


def _plain(driver: Driver) -> dict[str, Any]:
    return {
        "pid": driver.pid,
        "host": driver.host,
        "heartbeat_age_s": round(driver.heartbeat_s, 3),
        "lives": driver.lives,
    }


def _named(group: GroupName) -> dict[str, str]:
    return dict(zip(("scenario", "rubric", "policy"), group, strict=True))


def _sums(groups: tuple[GroupStatus, ...] | list[GroupStatus]) -> dict[str, int]:
    return {name: sum(getattr(group, name) for group in groups) for name in ("planned", "completed", "failed", "owed")}


def _counts(of: Mapping[str, int]) -> str:
    failed = f", {of['failed']:,} failed" if of["failed"] else ""
    owed = f", {of['owed']:,} owed" if of["owed"] else ""
    return f"{of['completed']:,} of {of['planned']:,} completed{failed}{owed}"
