"""How far a run is, from its folder alone: while it goes on, and after everything else of it is gone.

Reads what each committed unit's `episodes` shard says; no row of `steps`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rollouts.evidence.committed_run import CommittedRun, GroupName
from rollouts.evidence.manifest import read_manifest
from rollouts.naming import counted
from rollouts.run.lease import Holder, read_holder
from rollouts.run.run_folder import RunFolder

RUNNING, COMPLETE, INTERRUPTED = "running", "complete", "interrupted"


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
    """How it stood at `now` (seconds since 1970). `state` is `running`, or what the run ended with (`complete`,
    `interrupted`, `budget`, `stopped`), with the `cause` of a stop. `driver` has the run now, or had it last.
    `manifest` is empty where there is none that can be read.
    """

    run: CommittedRun
    now: float
    manifest: Mapping[str, Any]
    state: str
    cause: str | None
    driver: Holder | None
    groups: tuple[GroupStatus, ...]

    @cached_property
    def failures(self) -> dict[tuple[str, str], int]:
        """(stage, cause) → episodes, the most first."""
        return dict(Counter((f.stage, f.cause) for f in self.run.failures.values()).most_common())

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
            "driver": None if self.driver is None else _plain(self.driver, self.now),
            "units": {"planned": len(self.run.plan), "committed": len(self.run.committed)},
            "episodes": _sums(self.groups),
            "groups": [{**_named(group.group), **_sums([group])} for group in self.groups],
            "failures": [
                {"stage": stage, "cause": cause, "episodes": n} for (stage, cause), n in self.failures.items()
            ],
        }


def read_status(folder: RunFolder, now: float | None = None) -> RunStatus:
    """As it lies there now. Errors: `UsageError` where there is no run; `StorageError`."""
    run, now = CommittedRun.open(folder), time.time() if now is None else now
    groups, manifest = _groups(run), _manifest(run)
    driver = read_holder(folder.storage, folder.path("lease.json"))
    if driver is not None and driver.lives(now):
        return RunStatus(run, now, manifest, RUNNING, None, driver, groups)
    state, cause = _ended(manifest, sum(group.owed for group in groups))
    return RunStatus(run, now, manifest, state, cause, driver, groups)


def status_lines(status: RunStatus) -> list[str]:
    """For people."""
    told = status.as_dict()
    units = f"{told['units']['committed']:,} of {counted(told['units']['planned'], 'unit')} committed"
    lines = [f"{told['location']}: {told['state']}" + (f" ({status.cause})" if status.cause else "")]
    lines += [_driver_line(status.driver, status.now)] if status.driver and status.state == RUNNING else []
    lines.append(f"episodes: {_counts(told['episodes'])}; {units}")
    lines += [
        f"  {group['scenario']} {group['rubric']} {group['policy']}: {_counts(group)}" for group in told["groups"]
    ]
    lines += [f"failed at stage {one['stage']}: {one['cause']} ({one['episodes']:,})" for one in told["failures"]]
    return lines


def _groups(run: CommittedRun) -> tuple[GroupStatus, ...]:
    names = {unit.number: (unit.scenario, unit.rubric, unit.policy) for unit in run.plan}
    done = Counter(names[unit] for unit in run.latest.values())
    lost = Counter(names[run.latest[episode]] for episode in run.failures)
    return tuple(
        GroupStatus(facts.name, facts.n_planned, done[facts.name] - lost[facts.name], lost[facts.name])
        for facts in run.groups()
    )


def _manifest(run: CommittedRun) -> Mapping[str, Any]:
    try:
        return read_manifest(run) or {}
    except ValueError:
        return {}


def _ended(manifest: Mapping[str, Any], owed: int) -> tuple[str, str | None]:
    """A manifest of before the last start may say more than is true now: then it was interrupted since."""
    outcome = manifest.get("outcome") or {}
    state = str(outcome.get("state") or INTERRUPTED)
    return (INTERRUPTED, None) if owed and state == COMPLETE else (state, outcome.get("cause"))


def _driver_line(driver: Holder, now: float) -> str:
    heard_s = max(0.0, now - driver.heartbeat)
    return f"driver: process {driver.pid} on {driver.host}, last heard of {heard_s:.0f} s ago"


def _plain(driver: Holder, now: float) -> dict[str, Any]:
    return {
        "pid": driver.pid,
        "host": driver.host,
        "heartbeat_age_s": round(now - driver.heartbeat, 3),
        "lives": driver.lives(now),
    }


def _named(group: GroupName) -> dict[str, str]:
    return dict(zip(("scenario", "rubric", "policy"), group, strict=True))


def _sums(groups: tuple[GroupStatus, ...] | list[GroupStatus]) -> dict[str, int]:
    return {name: sum(getattr(group, name) for group in groups) for name in ("planned", "completed", "failed", "owed")}


def _counts(of: Mapping[str, int]) -> str:
    failed = f", {of['failed']:,} failed" if of["failed"] else ""
    owed = f", {of['owed']:,} owed" if of["owed"] else ""
    return f"{of['completed']:,} of {of['planned']:,} completed{failed}{owed}"
