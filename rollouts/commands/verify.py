"""`rollouts verify`: does a run still hold what its evidence says?"""

from __future__ import annotations

import json
from typing import Annotated, Any

from cyclopts import Parameter

from grading.evidence import SECTION, make_section, weights_of
from rollouts.errors import UsageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import read_manifest
from rollouts.evidence.replay import recorded_episodes, replay, spread, why_no_replay
from rollouts.evidence.verify import differences
from rollouts.exports.checking import differences as differences_of_export
from rollouts.exports.checking import is_export
from rollouts.naming import counted
from rollouts.run.location import find_run
from rollouts.run.run_folder import RunFolder


def verify(
    run: str,
    /,
    *,
    replay_episodes: Annotated[int, Parameter(name="--replay", allow_leading_hyphen=True)] = 0,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Recompute every number and every hash of a run from its shards, and check its keys; of an export its files.

    Exits 1 with the list of what differs.

    Parameters
    ----------
    run
        The run's folder: a path, a URI, or its id alone under ./runs. Or the folder of an export.
    replay_episodes
        Also play so many episodes again, here, and compare their trajectory hashes. Not where a latency was measured
        in real time: that cannot be repeated.
    as_json
        One JSON object with the list.
    """
    if replay_episodes < 0:
        raise UsageError(f"--replay is {replay_episodes}: must be 0 or above")
    folder = find_run(run)
    if is_export(folder):
        return _verify_export(folder, as_json)
    committed = CommittedRun.open(folder)
    found = differences(committed, {SECTION: _as_weighted})
    episodes = recorded_episodes(committed) if replay_episodes else []
    why_not = why_no_replay(committed, episodes) if replay_episodes else None
    chosen = [] if why_not else spread(episodes, replay_episodes)
    found += replay(committed, chosen)
    if as_json:
        told = {"run_id": committed.folder.run_id, "location": committed.folder.describe(), "differences": found}
        print(json.dumps({**told, "not_replayed": why_not} if why_not else told))
    else:
        _tell(committed, found, _replayed(len(chosen), why_not))
    return 1 if found else 0


def _verify_export(folder: RunFolder, as_json: bool) -> int:
    found = differences_of_export(folder)
    if as_json:
        print(json.dumps({"location": folder.describe(), "differences": found}))
    else:
        print(*found, sep="\n", end="\n" if found else "")
        print(f"{counted(len(found), 'difference')} in" if found else "as its export.json says:", folder.describe())
    return 1 if found else 0


def _replayed(episodes: int, why_not: str | None) -> str:
    if why_not:
        return f", none played again: {why_not}"
    return f", {episodes} {'episode' if episodes == 1 else 'episodes'} played again" if episodes else ""


def _as_weighted(run: CommittedRun) -> Any:
    """The section on grading, R under the weights that the manifest names."""
    return make_section(run, weights_of(read_manifest(run) or {}))


def _tell(committed: CommittedRun, found: list[str], played: str) -> None:
    for difference in found:
        print(difference)
    where = committed.folder.describe()
    if found:
        print(f"{len(found)} {'difference' if len(found) == 1 else 'differences'} in {where}{played}")
    else:
        print(f"{where} is as its manifest says: {counted(len(committed.committed), 'unit')} checked{played}")
