"""How far a run is, from its folder alone: while it goes on, and after everything else of it is gone.

Where the manifest has every file that is there, it says all. Else what each committed unit's `episodes` shard says is
read; no row of `steps`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.evidence.committed_run import EPISODES, STEPS, CommittedRun, GroupName
from rollouts.evidence.log_lines import last_log_lines, log_line
from rollouts.evidence.manifest import read_manifest
from rollouts.evidence.side_tables import side_parts
from rollouts.naming import counted
from rollouts.plan import episode_ids
from rollouts.records import Unit
from rollouts.run.call_journal import JOURNAL
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
    `failures`: (stage, cause) → episodes, the most first. `manifest` is empty where there is none that can be read;
    `run` is None where the manifest has every file that is there. `unshelved`: calls to models that no shard has yet.
    `log`: the last lines of the logs.
    """

    folder: RunFolder
    now: float
    manifest: Mapping[str, Any]
    run: CommittedRun | None
    state: str
    cause: str | None
    driver: Holder | None
    units_planned: int
    units_committed: int
    groups: tuple[GroupStatus, ...]
    failures: Mapping[tuple[str, str], int]
    unshelved: int
    log: tuple[Mapping[str, Any], ...]

    @property
    def owed(self) -> int:
        return sum(group.owed for group in self.groups)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run_id": self.folder.run_id,
            "location": self.folder.describe(),
            "state": self.state,
            "cause": self.cause,
            "driver": None if self.driver is None else _plain(self.driver, self.now),
            "units": {"planned": self.units_planned, "committed": self.units_committed},
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
    now = time.time() if now is None else now
    folder.read_record()
    plan, manifest = folder.read_plan(), _manifest(folder)
    run = None if _tells_all(folder, plan, manifest) else CommittedRun.open(folder)
    groups, failures = _of_manifest(manifest) if run is None else _of_shards(run)
    driver = read_holder(folder.storage, folder.path("lease.json"))
    state, cause = _state(manifest, driver is not None and driver.lives(now), sum(group.owed for group in groups))
    return RunStatus(
        folder=folder,
        now=now,
        manifest=manifest,
        run=run,
        state=state,
        cause=cause,
        driver=driver,
        units_planned=len(plan),
        units_committed=len(manifest["tables"][EPISODES]["shards"]) if run is None else len(run.committed),
        groups=groups,
        failures=dict(failures.most_common()),
        unshelved=len(folder.storage.list(folder.path(JOURNAL), recursive=True)),
        log=last_log_lines(folder),
    )


def status_lines(status: RunStatus) -> list[str]:
    """For people."""
    told = status.as_dict()
    units = f"{told['units']['committed']:,} of {counted(told['units']['planned'], 'unit')} committed"
    lines = [f"{told['location']}: {told['state']}" + (f" ({status.cause})" if status.cause else "")]
    lines += [_driver_line(status.driver, status.now)] if status.driver and not status.driver.released else []
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


def _tells_all(folder: RunFolder, plan: Sequence[Unit], manifest: Mapping[str, Any]) -> bool:
    """Whether the manifest was written after all that is there, by names and bytes."""
    tables = manifest.get("tables") or {}
    planned = len({episode for unit in plan for episode in episode_ids(unit)})
    if (manifest.get("coverage") or {}).get("planned") != planned:
        return False
    for table in (EPISODES, STEPS):
        told = {shard["name"]: shard["bytes"] for shard in tables.get(table, {}).get("shards", ())}
        if told != {file.name: file.bytes for file in folder.storage.list(folder.path(table))}:
            return False
    sides = {name: len(of["shards"]) for name, of in tables.items() if name not in (EPISODES, STEPS)}
    return side_parts(folder) == sides


def _of_manifest(manifest: Mapping[str, Any]) -> tuple[tuple[GroupStatus, ...], Counter[tuple[str, str]]]:
    failures = Counter[tuple[str, str]]()
    for failure in manifest["failures"]:
        failures[failure["stage"], failure["cause"]] += failure["n"]
    groups = (
        GroupStatus((of["scenario"], of["rubric"], of["policy"]), of["planned"], of["completed"], of["failed"])
        for of in manifest["coverage"]["groups"]
    )
    return tuple(groups), failures


def _of_shards(run: CommittedRun) -> tuple[tuple[GroupStatus, ...], Counter[tuple[str, str]]]:
    names = {unit.number: (unit.scenario, unit.rubric, unit.policy) for unit in run.plan}
    done = Counter(names[unit] for unit in run.latest.values())
    lost = Counter(names[run.latest[episode]] for episode in run.failures)
    groups = (
        GroupStatus(facts.name, facts.n_planned, done[facts.name] - lost[facts.name], lost[facts.name])
        for facts in run.groups()
    )
    return tuple(groups), Counter((failure.stage, failure.cause) for failure in run.failures.values())


def _manifest(folder: RunFolder) -> Mapping[str, Any]:
    try:
        return read_manifest(folder) or {}
    except ValueError:
        return {}


def _state(manifest: Mapping[str, Any], is_driven: bool, owed: int) -> tuple[str, str | None]:
    """A manifest of before the last start may say more than is true now: then it was interrupted since."""
    if is_driven:
        return RUNNING, None
    outcome = manifest.get("outcome") or {}
    state = str(outcome.get("state") or INTERRUPTED)
    return (INTERRUPTED, None) if owed and state == COMPLETE else (state, outcome.get("cause"))


def _driver_line(driver: Holder, now: float) -> str:
    heard_s = max(0.0, now - driver.heartbeat)
    gone = "" if driver.lives(now) else ": it is gone"
    return f"driver: process {driver.pid} on {driver.host}, last heard of {heard_s:.0f} s ago{gone}"


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
