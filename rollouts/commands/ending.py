"""How a run ended: the evidence, the `done` line, the last words for people, and the exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from grading.evidence import SECTION, grading_section, weights_of
from grading.grade import Weights
from grading.order import GradingOrder
from grading.owed import Owed
from grading.pipeline import SideOutcome
from rollouts.calls.replies import Cause
from rollouts.commands.playing import Played, Ready
from rollouts.errors import LeaseError, StorageError
from rollouts.evidence.committed_run import EPISODES, STEPS, CommittedRun
from rollouts.evidence.manifest import MANIFEST, read_manifest, write_evidence
from rollouts.evidence.own_answers import Standins, without_an_answer
from rollouts.evidence.side_tables import side_parts
from rollouts.grading_config import GradingConfig
from rollouts.naming import counted
from rollouts.progress import Counts
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.settings import one_line

State = Literal["complete", "budget", "stopped", "interrupted"]
STATES: tuple[State, ...] = get_args(State)
"""From the best end to the worst."""
FROM_MANIFEST = ("results", "coverage", "failures", SECTION)
_MOST_OF_ERROR = 200
NO_CAUSES: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Asked:
    """The grader and the summarizer that a command asked for, and the `weights` of R. `excused` are causes for which an
    episode without a score is no failure of the command: nobody asked for the grader that is there by default.
    `plays`: episodes too, so that failed ones are failures of the command."""

    grader_id: str | None = None
    weights: Weights | None = None
    excused: frozenset[str] = NO_CAUSES
    plays: bool = True
    summarizer_id: str | None = None

    @classmethod
    def of(cls, order: GradingOrder | None, config: GradingConfig) -> Asked:
        if order is None:
            return cls()
        excused = NO_CAUSES if config.grade else BY_DEFAULT
        return cls(order.grader_id, order.weights, excused, summarizer_id=order.summarizer_id)


NOBODY = Asked()
BY_DEFAULT = frozenset({Cause.NO_BASELINE.value})


@dataclass(frozen=True)
class Left:
    """What a command was to make and did not: gradings, and the summaries of so many episodes (one that is played, but
    has no decision, is among them: only its unit knows that there is nothing to summarize)."""

    gradings: int = 0
    summaries: int = 0


NOTHING_LEFT = Left()


@dataclass(frozen=True)
class Ending:
    """`owed` counts episodes; `manifest` is None where none could, or should, be written. `left` is what the command
    itself had left: of gradings the manifest knows better."""

    state: State
    owed: int
    manifest: dict[str, Any] | None
    cause: str | None = None
    signal: int | None = None
    asked: Asked = NOBODY
    left: Left = NOTHING_LEFT

    @property
    def failed(self) -> int:
        """Episodes whose last try failed."""
        return 0 if self.manifest is None else int(self.manifest["coverage"]["failed"])

    @property
    def ungraded(self) -> dict[str, int]:
        """Gradings of the grader that was asked for which have no score, by cause; the excused ones left out."""
        causes = self.grader().get("ungraded_by_cause", {})
        return {cause: n for cause, n in causes.items() if cause not in self.asked.excused}

    @property
    def unanswered(self) -> list[Standins]:
        """The policies that played and answered nothing by themselves."""
        return [] if self.manifest is None or not self.asked.plays else without_an_answer(self.manifest)

    @property
    def gradings_owed(self) -> int:
        """Gradings of the grader that was asked for which are not there yet, of episodes that are."""
        return self.left.gradings if self.manifest is None else int(self.grader().get("owed", 0))

    @property
    def degraded(self) -> dict[str, int]:
        """Entries of the summarizer that was asked for which have no score, by cause."""
        return dict(self._listed("summarizers", "summarizer_id", self.asked.summarizer_id).get("degraded_by_cause", {}))

    def grader(self) -> dict[str, Any]:
        """The manifest's entry of the grader that was asked for; {} where there is none."""
        return self._listed("graders", "grader_id", self.asked.grader_id)

    def _listed(self, names: str, key: str, id: str | None) -> dict[str, Any]:
        found = [] if self.manifest is None else self.manifest.get(SECTION, {}).get(names, [])
        return next((one for one in found if one[key] == id), {})

    @property
    def exit_code(self) -> int:
        """0 all done; 1 failed, ungraded or degraded parts, a policy without any answer of its own, or stopped; 128+n
        after signal n."""
        if self.signal is not None:
            return 128 + self.signal
        failed = self.failed > 0 and self.asked.plays
        lacking = bool(self.unanswered or self.ungraded or self.degraded)
        return int(self.state != "complete" or failed or lacking or self.gradings_owed > 0)


@dataclass(frozen=True)
class End:
    """How work ended: by `signal` where the state is `interrupted`; `lost`: the lease is another driver's now."""

    state: State
    cause: str | None = None
    signal: int | None = None
    lost: bool = False
    left: Left = NOTHING_LEFT


def conclude(ready: Ready, played: Played) -> Ending:
    """Write the evidence and give the lease back. After a signal there is no time for it: the next run sees to it."""
    prepared, outcome = ready.prepared, played.outcome
    owed = ready.standing.episodes - played.counts.episodes
    rolled = End(outcome.state, outcome.cause, played.signal, isinstance(outcome.error, LeaseError))
    end = replace(worst(rolled, side_end(played.side, played.signal)), left=_left(ready, played))
    return close(prepared.folder, ready.lease, owed, Asked.of(prepared.judging, prepared.grading), end)


def _left(ready: Ready, played: Played) -> Left:
    """Of what was to be judged at the start and of what was played since."""
    if ready.judging is None:
        return NOTHING_LEFT
    before, now, order = ready.standing.counts, played.counts, ready.judging.order
    completed = (now.episodes - now.failed) - (before.episodes - before.failed)
    gradings = order.repeats * completed if order.grader is not None else 0
    return left_of(ready.standing.side, now, gradings, completed if order.summarizer is not None else 0)


def left_of(owed: Owed, now: Counts, gradings: int = 0, episodes: int = 0) -> Left:
    """What is not made `now`, of what was `owed` and of `gradings` and `episodes` to summarize that came since."""
    return Left(
        max(0, owed.gradings + gradings - now.side.gradings),
        max(0, owed.summary_episodes + episodes - now.side.summarized),
    )


def close(folder: RunFolder, lease: Lease, owed: int, asked: Asked, end: End) -> Ending:
    """The last things under a lease: replies on file into shards, the evidence, the lease itself."""
    state, cause, manifest = end.state, end.cause, None
    signal = end.signal if state == "interrupted" else None
    try:
        if signal is None and not end.lost:
            SideFolder(folder).gather(lease)
            manifest = write_manifest(folder, lease, state, cause, asked.weights)
        folder.finish(lease)
    except (StorageError, LeaseError) as error:
        cause = cause or str(error)
        state = "stopped" if state == "complete" else state
    return Ending(state, owed, manifest, cause, signal, asked, end.left)


def worst(*ends: End) -> End:
    """Of several ends the worst; of equally bad ones the first that names a cause."""
    state = max((end.state for end in ends), key=STATES.index)
    of_state = [end for end in ends if end.state == state]
    chosen = next((end for end in of_state if end.cause), of_state[0])
    return replace(chosen, lost=any(end.lost for end in ends))


def side_end(side: SideOutcome | None, signal: int | None = None) -> End:
    """How grading ended. A stage that only waits for one that stopped has not been interrupted."""
    if side is None:
        return End("complete")
    ends = [End(_state(stage.state), stage.cause, signal) for stage in side.stages.values()]
    stopped = [end for end in ends if end.state in ("budget", "stopped")]
    return worst(*(stopped or ends or [End("complete")]))


def _state(text: str | None) -> State:
    return next((state for state in STATES if state == text), "stopped")


def write_manifest(
    folder: RunFolder, lease: Lease, state: State, cause: str | None, weights: Weights | None
) -> dict[str, Any]:
    """The evidence of what is committed, with how the run ended. Without `weights`, R's are those of the last time.

    Errors: `LeaseError` where the lease is lost.
    """
    ended, run = {"state": state, "cause": cause}, CommittedRun.open(folder)
    weights = weights or weights_of(_there(run) or {})
    return write_evidence(run, {"outcome": lambda _: ended, SECTION: grading_section(weights)}, lease.held)


def current_manifest(folder: RunFolder, weights: Weights | None) -> dict[str, Any] | None:
    """The manifest of a finished run; None where it has to be written (again)."""
    run = CommittedRun.open(folder)
    manifest = _there(run)
    if manifest is None or manifest.get("outcome", {}).get("state") != "complete":
        return None
    tables = manifest.get("tables", {})
    listed = {name: len(table["shards"]) for name, table in tables.items() if name != STEPS}
    same = SECTION in manifest and listed == {EPISODES: len(run.committed), **side_parts(run.folder)}
    same = same and weights in (None, weights_of(manifest)) and _asks_as_told(run, manifest)
    return manifest if same else None


def _asks_as_told(run: CommittedRun, manifest: dict[str, Any]) -> bool:
    side = SideFolder(run.folder)
    return all(side.asked(grader["grader_id"]) <= grader["repeats"] for grader in manifest[SECTION]["graders"])


def _there(run: CommittedRun) -> dict[str, Any] | None:
    try:
        return read_manifest(run)
    except ValueError:
        return None


def done(folder: RunFolder, ending: Ending) -> dict[str, Any]:
    """The last line of `--json`."""
    manifest = ending.manifest
    return {
        "run_id": folder.run_id,
        "state": ending.state,
        "exit_code": ending.exit_code,
        "owed": ending.owed,
        "gradings_owed": ending.gradings_owed,
        "summaries_owed": ending.left.summaries,
        "ungraded": sum(ending.ungraded.values()),
        "degraded": sum(ending.degraded.values()),
        "cause": ending.cause,
        "unanswered": [found.as_dict() for found in ending.unanswered],
        "location": folder.describe(),
        "manifest": folder.describe(MANIFEST) if manifest else None,
        **{key: manifest.get(key) if manifest else None for key in FROM_MANIFEST},
    }


def last_words(ending: Ending, again: str) -> list[str]:
    """What has to stand at the very end, where something is not as it should be; `again` is how to go on."""
    if ending.signal is not None:
        owed = _owed_words(ending)
        return [f"interrupted{f' with {owed} owed' if owed else ''}; to go on, {again}"]
    lines = []
    if ending.failed and ending.asked.plays and ending.manifest is not None:
        first = ending.manifest["failures"][0]
        lines.append(
            f"{counted(ending.failed, 'episode')} failed, the first at stage {first['stage']}: {first['cause']}"
        )
    lines += [f"no answer of its own in the whole run: {found}" for found in ending.unanswered]
    if ending.ungraded:
        lines.append(_ungraded_line(ending))
    if ending.degraded:
        causes = ", ".join(f"{n:,} {cause}" for cause, n in ending.degraded.items())
        mend = "rollouts grade --retry-degraded asks for them again"
        n = sum(ending.degraded.values())
        lines.append(f"{counted(n, 'summary entry')} {'is' if n == 1 else 'are'} degraded: {causes}; {mend}")
    if ending.state == "complete" and ending.gradings_owed:
        are = "is" if ending.gradings_owed == 1 else "are"
        lines.append(f"{counted(ending.gradings_owed, 'grading')} that an earlier --repeat asked for {are} owed")
    if ending.state != "complete":
        lines.append(f"stopped with {_owed_words(ending) or 'work'} owed: {ending.cause or ending.state}")
    return lines


def _owed_words(ending: Ending) -> str:
    """Episodes to be played, gradings and summaries of those that were; nothing where none are known to be owed."""
    summaries = ending.left.summaries
    parts = [counted(n, noun) for n, noun in ((ending.owed, "episode"), (ending.gradings_owed, "grading")) if n]
    parts += [f"the summaries of {counted(summaries, 'episode')}"] if summaries else []
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def _ungraded_line(ending: Ending) -> str:
    """How many and why, with what the endpoint said; asking a model again may help, computing again does not."""
    grader, n = ending.grader(), sum(ending.ungraded.values())
    causes = ", ".join(f"{n:,} {cause}" for cause, n in ending.ungraded.items())
    error = f" ({one_line(grader['endpoint_error'], _MOST_OF_ERROR)})" if grader.get("endpoint_error") else ""
    mend = "; rollouts grade --retry-ungraded asks for them again" if grader.get("source") == "llm" else ""
    return f"{counted(n, 'grading')} {'has' if n == 1 else 'have'} no score: {causes}{error}{mend}"


def say(text: str) -> None:
    """One line for people, on stderr, in our own printing."""
    print(f"rollouts: {one_line(text)}", file=sys.stderr, flush=True)
