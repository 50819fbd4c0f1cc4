"""How a run ended: the evidence, the `done` line, the last words for people, and the exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Literal

from rollouts.commands.playing import Played, Ready
from rollouts.errors import LeaseError, StorageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import MANIFEST, read_manifest, write_evidence
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.settings import one_line

State = Literal["complete", "stopped", "interrupted"]
FROM_MANIFEST = ("results", "coverage", "failures")


@dataclass(frozen=True)
class Ending:
    """`owed` counts episodes; `manifest` is None where none could, or should, be written."""

    state: State
    owed: int
    manifest: dict[str, Any] | None
    cause: str | None = None
    signal: int | None = None

    @property
    def failed(self) -> int:
        """Episodes whose last try failed."""
        return 0 if self.manifest is None else int(self.manifest["coverage"]["failed"])

    @property
    def exit_code(self) -> int:
        """0 all done; 1 failed parts or stopped; 128+n after signal n."""
        if self.signal is not None:
            return 128 + self.signal
        return int(self.state != "complete" or self.failed > 0)


def conclude(ready: Ready, played: Played) -> Ending:
    """Write the evidence and give the lease back. After a signal there is no time for it: the next run sees to it."""
    outcome, folder = played.outcome, ready.prepared.folder
    owed = ready.standing.episodes - played.counts.episodes
    cause, signal = outcome.cause, outcome.signal if outcome.state == "interrupted" else None
    manifest = None
    try:
        if signal is None and not isinstance(outcome.error, LeaseError):
            manifest = write_manifest(folder, ready.lease, outcome.state, cause)
        folder.finish(ready.lease)
    except (StorageError, LeaseError) as error:
        cause = cause or str(error)
    state: State = "stopped" if cause else outcome.state
    return Ending(state, owed, manifest, cause, signal)


def write_manifest(folder: RunFolder, lease: Lease, state: State, cause: str | None) -> dict[str, Any]:
    """The evidence of what is committed, with how the run ended. Errors: `LeaseError` where the lease is lost."""
    ended = {"state": state, "cause": cause}
    return write_evidence(CommittedRun.open(folder), {"outcome": lambda _: ended}, lease.held)


def current_manifest(folder: RunFolder) -> dict[str, Any] | None:
    """The manifest of a finished run; None where it has to be written (again)."""
    run = CommittedRun.open(folder)
    try:
        manifest = read_manifest(run)
    except ValueError:
        return None
    if manifest is None or manifest.get("outcome", {}).get("state") != "complete":
        return None
    listed = manifest.get("tables", {}).get("episodes", {})
    return manifest if len(listed.get("shards", ())) == len(run.committed) else None


def done(folder: RunFolder, ending: Ending) -> dict[str, Any]:
    """The last line of `--json`."""
    manifest = ending.manifest
    return {
        "run_id": folder.run_id,
        "state": ending.state,
        "exit_code": ending.exit_code,
        "owed": ending.owed,
        "cause": ending.cause,
        "location": folder.describe(),
        "manifest": folder.describe(MANIFEST) if manifest else None,
        **{key: manifest[key] if manifest else None for key in FROM_MANIFEST},
    }


def last_words(ending: Ending, again: str) -> list[str]:
    """What has to stand at the very end, where something is not as it should be; `again` is how to go on."""
    if ending.signal is not None:
        return [f"interrupted with {ending.owed:,} episodes owed; to go on, {again}"]
    lines = []
    if ending.failed and ending.manifest is not None:
        first = ending.manifest["failures"][0]
        lines.append(f"{ending.failed:,} episodes failed, the first at stage {first['stage']}: {first['cause']}")
    if ending.cause:
        lines.append(f"stopped with {ending.owed:,} episodes owed: {ending.cause}")
    return lines


def say(text: str) -> None:
    """One line for people, on stderr, in our own printing."""
    print(f"rollouts: {one_line(text)}", file=sys.stderr, flush=True)
