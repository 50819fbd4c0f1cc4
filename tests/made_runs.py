"""Runs with known rows, written and committed as real ones are: what the numbers must be is counted by hand.

The scenario is the counting game: options `stay` and `down`, teacher `down`, seeds 1, 2, 3, metric `left`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rollouts.config import RunConfig
from rollouts.evidence.committed_run import CommittedRun
from rollouts.identity import RunFacts
from rollouts.plan import PlanGroup, extend_plan, make_plan
from rollouts.records import (
    ActedBy,
    Answer,
    Decision,
    Episode,
    EpisodeFailure,
    EpisodeKey,
    PolicyDescription,
    Snapshot,
    Transition,
    Unit,
    UnitReport,
)
from rollouts.run.run_folder import RunFolder
from rollouts.run.run_record import make_run_record
from rollouts.shards.rows import Provenance
from rollouts.shards.writing import StepWriter, write_episodes
from rollouts.store.storage import open_storage
from tests.doubles import COUNTING

RUN_ID = "made"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
PICTURE = b"a picture"


@dataclass(frozen=True)
class Turn:
    """One decision: the policy's own answer, its probabilities, and whether it was asked."""

    own: str | None
    probabilities: Mapping[str, float]
    asked: bool = True
    schema_error: str | None = None
    picture: bytes | None = None


@dataclass(frozen=True)
class Played:
    """How an episode went: its turns and metric, or stage and cause of its failure. It took 2 s."""

    turns: Sequence[Turn] = ()
    metric: float = 0.0
    failure: tuple[str, str] | None = None


HALF_RIGHT = (
    Turn("down", {"stay": 0.4, "down": 0.6}, picture=PICTURE),
    Turn("stay", {"stay": 0.7, "down": 0.3}, picture=PICTURE),
    Turn("jump", {"down": 0.9}, schema_error="not_an_option", picture=PICTURE),
)
"""Brier 0.32, 0.98 and 0.01; confidence 0.6 right, 0.7 wrong, 0.9 wrong (out of schema)."""
SILENT = (Turn("down", {}),)
"""Agrees, and names no probability."""
TEACHERS = (Turn("down", {"stay": 1.0, "down": 0.0}, asked=False),)
"""The teacher's turn: counts in no agreement."""


def made_run(root: Path, policies: tuple[str, ...] = ("half", "absent")) -> CommittedRun:
    """Three episodes of policy `half`, the third on its second try; of any other policy nothing is committed."""
    groups = [PlanGroup("counting", "rule", policy, (1, 2, 3), step_cap=9) for policy in policies]
    plan = make_plan(groups, episodes_per_unit=2)
    plan += extend_plan(plan, groups, 2, {"counting.rule.half.3.0": 1})
    described = {name: PolicyDescription(name, "model", model=f"{name}|model") for name in policies}
    facts = RunFacts("0.0", {"counting": {"cfg_sha256": "none"}}, described)
    config = RunConfig(scenarios=("tests.doubles:COUNTING",), policies=policies, step_cap=9, run_id=RUN_ID)
    record = make_run_record(config, facts, RUN_ID) | {"started_at": NOON.isoformat()}
    folder = RunFolder(open_storage(root), RUN_ID)
    lease = folder.acquire()
    folder.create(lease, record, plan)
    history = {
        0: [Played(HALF_RIGHT, 2.0), Played(SILENT, 4.0)],
        1: [Played(failure=("engine", "the engine died (signal 9)"))],
        plan[-1].number: [Played(TEACHERS, 9.0)],
    }
    for unit in plan:
        if unit.number in history:
            folder.promote(lease, stage(folder, unit, lease.next_attempt(), history[unit.number]))
    folder.finish(lease)
    return CommittedRun.open(folder)


def stage(folder: RunFolder, unit: Unit, attempt: str, history: Sequence[Played]) -> UnitReport:
    """Write how a unit's episodes went, and put it where a driver may promote it."""
    place = Provenance(unit, folder.run_id, COUNTING.tics, 9, "actor-0", "here")
    with tempfile.TemporaryDirectory() as scratch:
        spool, episodes = Path(scratch) / "steps", Path(scratch) / "episodes"
        writer = StepWriter(spool, unit.part, folder.run_id, COUNTING.tics, COUNTING.options)
        records = [_write(writer, key, played) for key, played in zip(unit.keys(), history, strict=True)]
        steps = writer.close()
        shard = write_episodes(episodes, records, steps, place)
        folder.stage(unit, attempt, spool if steps else None, episodes)
    return UnitReport(unit.number, attempt, steps, shard, 0, 0, tuple(played.failure for played in history))


def _write(writer: StepWriter, key: EpisodeKey, played: Played) -> Episode | EpisodeFailure:
    ended = NOON + timedelta(seconds=2)
    if played.failure:
        return EpisodeFailure(key, *played.failure, started_at=NOON, ended_at=ended)
    writer.begin(key)
    for tick, turn in enumerate(played.turns):
        writer.append(_decision(tick, turn, last=tick + 1 == len(played.turns)), turn.picture)
    writer.commit_episode()
    errors = [turn.schema_error for turn in played.turns if turn.schema_error]
    return Episode(
        key=key,
        metric_name=COUNTING.metric.name,
        metric=played.metric,
        steps=len(played.turns),
        total_reward=0.0,
        end_reason="goal",
        terminated=True,
        truncated=False,
        out_of_schema_by_cause={cause: errors.count(cause) for cause in errors},
        latency_ms_p50=None,
        latency_ms_p95=None,
        trajectory_hash="0" * 32,
        frames_hash=None,
        final_state=None,
        final_frame=None,
        started_at=NOON,
        ended_at=ended,
    )


def _decision(tick: int, turn: Turn, last: bool) -> Decision:
    acted_by: ActedBy = "fallback" if turn.schema_error else "policy" if turn.asked else "teacher"
    return Decision(
        tick=tick,
        state=f"state {tick}",
        snapshot=Snapshot(game_tic=4 * tick, health=5 - tick),
        teacher_action="down",
        answer=Answer(turn.own, turn.probabilities, asked=turn.asked),
        effective_action="stay" if turn.schema_error else turn.own or "stay",
        acted_by=acted_by,
        transition=Transition(0.0, None, terminated=last),
        terminated=last,
        truncated=False,
        decided_at=NOON,
        schema_error=turn.schema_error,
    )
