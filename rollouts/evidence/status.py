"""How far a run is, from its folder alone: while it goes on, and after everything else of it is gone.

Where the manifest has every file that is there, it says all. Else what each committed unit's `episodes` shard says is
read; no row of `steps`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollouts.evidence.committed_run import EPISODES, STEPS, CommittedRun, GroupName, latest_failures
from rollouts.evidence.log_lines import last_log_lines, log_line
from rollouts.evidence.manifest import read_manifest
from rollouts.evidence.side_tables import side_parts
from rollouts.naming import counted
from rollouts.plan import episode_ids
from rollouts.run.call_journal import JOURNAL
from rollouts.run.lease import EXPIRY_S, Holder, read_holder
from rollouts.run.run_folder import RunFolder
from rollouts.shards.reading import Failure
from rollouts.shards.writing import shard_name

RUNNING, COMPLETE, INTERRUPTED = "running", "complete", "interrupted"


@dataclass(frozen=True, slots=True)
class Driver:
    """Who has the run now, or had it last. `lives`: it does, as far as can be seen from here; `released`: it ended and
    gave the run back."""

    pid: int
    host: str
    heartbeat_s: float
    lives: bool
    released: bool

    @classmethod
    def of(cls, holder: Holder, now: float) -> Driver:
        """On this machine its process says whether it lives, elsewhere a heartbeat of the last 60 s does."""
        age_s = now - holder.heartbeat
        lives = holder.is_alive_here() if holder.is_here() else abs(age_s) < EXPIRY_S
        return cls(holder.pid, holder.host, age_s, lives and not holder.released, holder.released)


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
    `cause` of a stop. `failures`: (stage, cause) → episodes. `manifest` is empty where there is none that can be read;
    `is_told`: it has every file that is there; else `failed` are the episodes whose row that counts is a failed one.
    `unshelved`: calls to models that no shard has yet. `log`: the last lines of the logs.
    """

    run: CommittedRun
    manifest: Mapping[str, Any]
    is_told: bool
    state: str
    cause: str | None
    driver: Driver | None
    groups: tuple[GroupStatus, ...]
    failures: Mapping[tuple[str, str], int]
    failed: frozenset[str]
    unshelved: int
    log: tuple[Mapping[str, Any], ...]

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
            "calls_under_way": self.unshelved,
            "last_lines": list(self.log),
        }


def read_status(folder: RunFolder, now: float | None = None) -> RunStatus:
    """As it lies there now. Errors: `UsageError` where there is no run; `StorageError`."""
    run, manifest, failed = _listed(folder), _manifest(folder), dict[str, Failure]()
    is_told = _tells_all(run, manifest)
    if is_told:
        groups, failures = _told_groups(manifest), _told_failures(manifest)
    else:
        commits = folder.survey().committed
        run = CommittedRun(folder, run.record, run.plan, frozenset(commits))
        failed = latest_failures(run, commits)
        groups, failures = _groups(run, failed), Counter((f.stage, f.cause) for f in failed.values())
    holder = read_holder(folder.storage, folder.path("lease.json"))
    driver = None if holder is None else Driver.of(holder, time.time() if now is None else now)
    state, cause = _state(manifest, driver, sum(group.owed for group in groups))
    unshelved = len(folder.storage.list(folder.path(JOURNAL), recursive=True))
    return RunStatus(
        run=run,
        manifest=manifest,
        is_told=is_told,
        state=state,
        cause=cause,
        driver=driver,
        groups=groups,
        failures=dict(failures.most_common()),
        failed=frozenset(failed),
        unshelved=unshelved,
        log=last_log_lines(folder),
    )


def status_lines(status: RunStatus) -> list[str]:
    """For people."""
    told = status.as_dict()
    units = f"{told['units']['committed']:,} of {counted(told['units']['planned'], 'unit')} committed"
    lines = [f"{told['location']}: {told['state']}" + (f" ({status.cause})" if status.cause else "")]
    lines += [_driver_line(status.driver)] if status.driver and not status.driver.released else []
    lines.append(f"episodes: {_counts(told['episodes'])}; {units}")
    lines += [
        f"  {group['scenario']} {group['rubric']} {group['policy']}: {_counts(group)}" for group in told["groups"]
    ]
    lines += [f"failed at stage {one['stage']}: {one['cause']} ({one['episodes']:,})" for one in told["failures"]]
    return lines


def log_lines(status: RunStatus) -> list[str]:
    """What must stand last: what the run was at, in its own words."""
    calls = counted(status.unshelved, "call")
    under_way = [f"{calls} to models under way or not summed up yet"] if status.unshelved else []
    return [
        *under_way,
        *(["last lines of the logs:"] if status.log else []),
        *(f"  {log_line(one)}" for one in status.log),
    ]


def _listed(folder: RunFolder) -> CommittedRun:
    """With the units whose files are there, unread."""
    record, plan = folder.read_record(), folder.read_plan()
    there = {file.name for file in folder.storage.list(folder.path(EPISODES))}
    return CommittedRun(folder, record, plan, frozenset(u.number for u in plan if shard_name(u.part) in there))


def _tells_all(run: CommittedRun, manifest: Mapping[str, Any]) -> bool:
    """Whether the manifest was written after all that is there, by names and bytes."""
    tables = manifest.get("tables") or {}
    planned = len({episode for unit in run.plan for episode in episode_ids(unit)})
    if (manifest.get("coverage") or {}).get("planned") != planned:
        return False
    for table in (EPISODES, STEPS):
        told = {shard["name"]: shard["bytes"] for shard in tables.get(table, {}).get("shards", ())}
        if told != {file.name: file.bytes for file in run.storage.list(run.path(table))}:
            return False
    return side_parts(run) == {name: len(of["shards"]) for name, of in tables.items() if name not in (EPISODES, STEPS)}


def _told_groups(manifest: Mapping[str, Any]) -> tuple[GroupStatus, ...]:
    return tuple(
        GroupStatus((of["scenario"], of["rubric"], of["policy"]), of["planned"], of["completed"], of["failed"])
        for of in manifest["coverage"]["groups"]
    )


def _told_failures(manifest: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    found = Counter[tuple[str, str]]()
    for failure in manifest["failures"]:
        found[failure["stage"], failure["cause"]] += failure["n"]
    return found


def _groups(run: CommittedRun, failed: Mapping[str, object]) -> tuple[GroupStatus, ...]:
    names = {unit.number: (unit.scenario, unit.rubric, unit.policy) for unit in run.plan}
    done = Counter(names[unit] for unit in run.latest.values())
    lost = Counter(names[run.latest[episode]] for episode in failed)
    return tuple(
        GroupStatus(facts.name, facts.n_planned, done[facts.name] - lost[facts.name], lost[facts.name])
        for facts in run.groups()
    )


def _manifest(folder: RunFolder) -> Mapping[str, Any]:
    try:
        return read_manifest(folder) or {}
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
    gone = "" if driver.lives else ": it is gone"
    return (
        f"driver: process {driver.pid} on {driver.host}, last heard of {max(0.0, driver.heartbeat_s):.0f} s ago{gone}"
    )


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
