"""Plays units and stages their shards: one environment and one policy at a time. Knows nothing of Ray.

A worker keeps its environment and policy while units of one group follow each other, and makes new ones when the
group changes. It writes only private files; what it stages counts once the driver has promoted it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from rollouts.calls.limits import Limiter
from rollouts.config import RunConfig
from rollouts.doom.environment import make_environment
from rollouts.episode import EpisodeFailed, EpisodeRules, run_episode
from rollouts.errors import EngineLost, UsageError
from rollouts.frames import FrameFormat, encode
from rollouts.meters import NO_METERS, Meters, count_decisions, count_episode, count_unit
from rollouts.policies.base import ModelCalls, OpensPolicies, Policy, close_policy
from rollouts.policies.model_settings import PROVIDERS
from rollouts.policies.registry import make_policy
from rollouts.policy_calls import CallLog, CallOrder, PolicyCalls, calls_id
from rollouts.records import Decision, Episode, EpisodeFailure, EpisodeKey, SideReport, Unit, UnitReport
from rollouts.run.run_folder import RunFolder
from rollouts.scenarios.scenario import Capture, Environment, Scenario
from rollouts.scratch import ScratchFolder
from rollouts.scrub import describe_error
from rollouts.shards.rows import Provenance
from rollouts.shards.writing import StepWriter, write_episodes

TRIES_PER_EPISODE = 3
BATCH = 32
CAPTURES: Mapping[FrameFormat, Capture] = {"png": "indexed", "png-rgb": "rgb", "jpeg": "rgb", "none": None}
Outcome = Episode | EpisodeFailure


class UnitJudge(Protocol):
    """Judges a unit where it was played, from its finished files, before they are staged."""

    def judge(self, unit: Unit, attempt: str, steps: Path, episodes: Path) -> SideReport:
        """Stage what it makes under `attempt`; there is no file `steps` where no episode left a decision."""
        ...


class MakeUnitJudge(Protocol):
    """Opens the judge of one worker; picklable. Whatever it needs to know it has brought with it."""

    def open(self, folder: RunFolder) -> UnitJudge: ...


@dataclass(frozen=True)
class WorkOrder:
    """Everything a worker needs to know; small and picklable.

    `policies` maps a policy's name, as units carry it, to what it was asked for as (`NAME:ARGUMENT`). `judge`: who
    judges each unit as soon as it is played, if anybody. `checkpoints` maps what policies with a checkpoint are asked
    for as, also those inside others, to its hash. `server`: who else holds policies for the workers, if anybody.
    `calls`: how policies call models, if any does.
    """

    config: RunConfig
    run_id: str
    policies: Mapping[str, str]
    versions: Mapping[str, str]
    judge: MakeUnitJudge | None = None
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    server: OpensPolicies | None = None
    calls: CallOrder | None = None

    def open_policy(self, name: str, scenario: Scenario, gpus: float, calls: ModelCalls | None = None) -> Policy:
        """The policy that units call `name`; as `make_policy`."""
        return self.make_policy(self.policies[name], scenario, gpus, calls)

    def make_policy(self, spec: str, scenario: Scenario, gpus: float, calls: ModelCalls | None = None) -> Policy:
        """A policy on `gpus` of a GPU, or one that asks the server. Errors: UsageError, also where its checkpoint is
        another here than the one that the run was started with."""
        policy = make_policy(spec, scenario, gpus, self.config.model_settings, calls, self.server)
        wanted = self.checkpoints.get(spec)
        if wanted is not None and (found := policy.describe().checkpoint_hash) != wanted:
            close_policy(policy)
            raise UsageError(
                f"policy {spec!r}: the checkpoint on {socket.gethostname()} is another (sha256 {str(found)[:12]}) "
                f"than the one that the run was started with ({wanted[:12]})"
            )
        return policy


class Worker:
    """Plays one unit after the other. `actor` and `node` go into the episodes table. `limiter` says when its policies
    may call models, where the order lets them.

    `on_outcome` is told of each finished episode. `decisions` may be read by another thread.
    """

    def __init__(  # noqa: PLR0913, PLR0917  the last three have defaults
        self,
        order: WorkOrder,
        folder: RunFolder,
        actor: str,
        node: str,
        on_outcome: Callable[[Outcome], None] | None = None,
        limiter: Limiter | None = None,
        meters: Meters = NO_METERS,
    ) -> None:
        self._order = order
        self._folder = folder
        self._actor = actor
        self._node = node
        self._on_outcome = on_outcome
        self._meters = meters
        self._cast: _Cast | None = None
        self._judge = order.judge.open(folder) if order.judge else None
        self._log = CallLog(folder)
        self._calls = PolicyCalls(order.calls, limiter, actor, self._log) if order.calls and limiter else None
        self._made = 0
        self.episodes = 0

    @property
    def decisions(self) -> int:
        """Decisions so far, and signs of life while one waits for a model."""
        return self._made + self._log.pulse

    def play(self, unit: Unit, attempt: str, skip: Mapping[str, str]) -> UnitReport:
        """Play a unit and stage its shards under `attempt`; episodes in `skip` (id → cause) fail unplayed.

        Raises whatever keeps the whole unit from being played: the environment or policy cannot be made, the scratch
        disk or the run folder fails, a budget is spent. Nothing of the attempt is then left on the scratch disk.
        """
        cast = self._cast_for(unit)
        with ScratchFolder("unit") as scratch:
            return self._play_into(scratch, cast, unit, attempt, skip)

    def close(self) -> None:
        """Give the environment and the policy back."""
        if self._cast is not None:
            self._cast.close()
            self._cast = None

    def _cast_for(self, unit: Unit) -> _Cast:
        group = (unit.scenario, unit.rubric, unit.policy)
        if self._cast is None or self._cast.group != group:
            self.close()
            self._cast = _Cast.make(self._order, group, self._calls)
        return self._cast

    def _play_into(self, scratch: Path, cast: _Cast, unit: Unit, attempt: str, skip: Mapping[str, str]) -> UnitReport:
        rules, frames = cast.rules, self._order.config.frames
        spool = StepWriter(scratch / "steps.spool", unit.part, self._order.run_id, rules.tics, rules.scenario.options)
        keys = unit.keys()
        self._log.begin(cast.caller, unit, attempt)
        recorder = _Recorder(spool, frames, self._count, self._meters)
        outcomes = [self._play_episode(cast, key, recorder, skip.get(key.episode_id)) for key in keys]
        steps = spool.close()
        place = Provenance(
            unit, self._order.run_id, rules.tics, rules.step_cap, self._actor, self._node, self._order.versions
        )
        picture = None if frames == "none" else partial(encode, fmt=frames)
        episodes = write_episodes(scratch / "episodes.spool", outcomes, steps, place, picture)
        files = (scratch / "steps.spool", scratch / "episodes.spool")
        judged = self._judge.judge(unit, attempt, *files) if self._judge else None
        side = self._with_calls(scratch, unit, attempt, judged)
        self._folder.stage(unit, attempt, files[0] if steps else None, files[1])
        report = UnitReport(
            unit=unit.number,
            attempt=attempt,
            steps=steps,
            episodes=episodes,
            n_decisions=sum(o.steps for o in outcomes if isinstance(o, Episode)),
            n_out_of_schema=sum(o.n_out_of_schema for o in outcomes if isinstance(o, Episode)),
            failures=tuple((o.stage, o.cause) if isinstance(o, EpisodeFailure) else None for o in outcomes),
            engine_restarts=cast.new_restarts(),
            side=side,
        )
        count_unit(self._meters, unit, report)
        return report

    def _with_calls(self, scratch: Path, unit: Unit, attempt: str, side: SideReport | None) -> SideReport | None:
        """What was judged here, and the calls that the policy made."""
        shard, counts = self._log.stage(scratch)
        if shard is None:
            return side
        side = side or SideReport(unit.number, attempt, (), (None,) * len(unit.episodes))
        return replace(side, shards=(shard, *side.shards), counts=side.counts + counts)

    def _count(self) -> None:
        self._made += 1

    def _play_episode(self, cast: _Cast, key: EpisodeKey, recorder: _Recorder, skipped: str | None) -> Outcome:
        """The episode as it went, or its failure; the rows of a failed one never reach the shard."""
        self._log.episode(key)
        outcome = _skipped(key, skipped) if skipped is not None else _tried(cast, key, recorder)
        self.episodes += 1
        count_episode(self._meters, outcome)
        if self._on_outcome is not None:
            self._on_outcome(outcome)
        return outcome


@dataclass
class _Cast:
    """The environment and policy of one (scenario, rubric, policy) group; `caller`: whose its calls to models are."""

    group: tuple[str, str, str]
    rules: EpisodeRules
    environment: Environment
    policy: Policy
    caller: str
    reported_restarts: int = 0

    @classmethod
    def make(cls, order: WorkOrder, group: tuple[str, str, str], calls: ModelCalls | None) -> _Cast:
        config, scenario = order.config, order.config.scenario(group[0])
        tics, step_cap = config.tics_of(scenario), config.step_cap_of(scenario)
        rules = EpisodeRules(scenario, tics, step_cap, config.seed, config.real_time())
        policy = order.open_policy(group[2], scenario, config.gpus_per_actor, calls)
        environment = make_environment(scenario, CAPTURES[config.frames], rules.tics, config.variables)
        return cls(group, rules, environment, policy, _caller(policy) if calls else "")

    def new_restarts(self) -> int:
        """Engines that had to be started again since this was last asked."""
        before, self.reported_restarts = self.reported_restarts, self.environment.restarts
        return self.reported_restarts - before

    def close(self) -> None:
        self.environment.close()
        close_policy(self.policy)


def _caller(policy: Policy) -> str:
    """Whose the calls are; nobody's where the policy asks no endpoint of the run's."""
    who = policy.describe()
    return calls_id(who) if who.provider in PROVIDERS else ""


class _Recorder:
    """Makes rows of decisions and files of frames, `BATCH` at a time: the engine, which runs between any two
    decisions, empties the processor's caches."""

    def __init__(self, writer: StepWriter, frames: FrameFormat, count: Callable[[], None], meters: Meters) -> None:
        self._writer = writer
        self._frames = frames
        self._count = count
        self._meters = meters
        self._pending: list[Decision] = []

    def begin(self, key: EpisodeKey) -> None:
        self._key, self._pending = key, []
        self._writer.begin(key)

    def record(self, decision: Decision) -> None:
        self._pending.append(decision)
        self._count()
        if len(self._pending) >= BATCH:
            self._write()

    def commit(self) -> None:
        self._write()
        self._writer.commit_episode()

    def discard(self) -> None:
        """Of a failed episode no row stays."""
        count_decisions(self._meters, self._key, self._pending)
        self._pending = []
        self._writer.discard_episode()

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        count_decisions(self._meters, self._key, pending)
        for decision in pending:
            frame = decision.snapshot.frame
            self._writer.append(decision, None if frame is None else encode(frame, self._frames))


def _tried(cast: _Cast, key: EpisodeKey, recorder: _Recorder) -> Outcome:
    """Play; where the engine is lost, the same episode again in a fresh one, a few times."""
    started_at = datetime.now(UTC)
    for _ in range(TRIES_PER_EPISODE):
        recorder.begin(key)
        try:
            episode = run_episode(key, cast.rules, cast.environment, cast.policy, recorder)
        except EpisodeFailed as failed:
            recorder.discard()
            return EpisodeFailure(key, failed.stage, failed.cause, started_at, datetime.now(UTC))
        except EngineLost as error:
            recorder.discard()
            lost = describe_error(error)
            continue
        recorder.commit()
        return episode
    cause = f"engine lost {TRIES_PER_EPISODE} times, the last: {lost}"
    return EpisodeFailure(key, "engine", cause, started_at, datetime.now(UTC))


def _skipped(key: EpisodeKey, cause: str) -> EpisodeFailure:
    now = datetime.now(UTC)
    return EpisodeFailure(key, "worker", cause, now, now)
