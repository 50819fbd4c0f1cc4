"""The loop: one policy plays one episode in one environment. Knows nothing of Doom, Ray or Parquet.

For each decision: describe, ask the teacher, ask the policy, check the answer against the options, act, record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from time import perf_counter
from typing import Protocol

from rollouts.errors import BudgetSpent, RolloutsError, RunStopped, StorageError, TryVoid
from rollouts.hashing import FramesHash, TrajectoryHash
from rollouts.metrics import percentile
from rollouts.policies.answer_check import checked_answer
from rollouts.policies.base import HasReset, Policy, SeesTick
from rollouts.realtime import Course, Game, RealTime
from rollouts.records import Answer, Decision, EndReason, Episode, EpisodeKey, Snapshot
from rollouts.scenarios.scenario import Environment, Metric, Outcome, Scenario
from rollouts.scrub import describe_error
from rollouts.streams import stream

MAX_POLICY_ERRORS_IN_A_ROW = 10
BATCH = 32
NOT_AN_OPTION = "not_an_option"
POLICY_ERROR = "policy_error"
NO_ANSWER = Answer(None)


class Recorder(Protocol):
    """Takes the decisions of one episode, in order."""

    def record(self, decision: Decision) -> None: ...


class EpisodeFailed(RolloutsError):
    """The episode cannot be played to its end. `stage` says whose fault, `cause` what happened (scrubbed)."""

    def __init__(self, stage: str, cause: str) -> None:
        super().__init__(f"{stage}: {cause}")
        self.stage = stage
        self.cause = cause


@dataclass(frozen=True)
class EpisodeRules:
    """What holds for every episode of a scenario in a run: engine tics an action, most decisions, the run's seed.

    `realtime` is None where the game stands still while the policy thinks.
    """

    scenario: Scenario
    tics: int
    step_cap: int
    run_seed: int
    realtime: RealTime | None = None


def run_episode(
    key: EpisodeKey, rules: EpisodeRules, environment: Environment, policy: Policy, recorder: Recorder
) -> Episode:
    """Play one episode; each decision goes to `recorder` as it is complete.

    Raises EpisodeFailed (a record of its own), TryVoid (play it again), BudgetSpent or RunStopped (it stays owed), or
    StorageError (a call could not be put on file).
    """
    tally = _Tally(rules.realtime)
    with _blame("environment"):
        snapshot = environment.reset(key.seed, key.index)
    if isinstance(policy, HasReset):
        with _blame("policy"):
            policy.reset(key, stream(rules.run_seed, "policy", key.scenario, key.seed, key.index))
    game = Game(environment, rules.tics, rules.realtime)
    asker = _Asker(rules.scenario, policy, rules.scenario.instructions[key.rubric])
    previous: str | None = None
    last: Decision | None = None
    while not environment.finished and tally.steps < rules.step_cap:
        asked = asker.ask(tally.steps, snapshot, previous)
        with _blame("environment"):
            course = game.act(asked.effective_action, asked.thought_ms)
        last = _complete(asked, course, capped=tally.steps + 1 >= rules.step_cap and not environment.finished)
        recorder.record(last)
        tally.add(last)
        previous = last.effective_action
        snapshot = course.seen or snapshot
    return _finish(key, rules, tally, snapshot, last)


@contextmanager
def _blame(stage: str, who: str = "") -> Iterator[None]:
    """Turn whatever the scenario's or user's code raises into a failure of the episode; void tries pass."""
    try:
        yield
    except (TryVoid, BudgetSpent, RunStopped, EpisodeFailed):
        raise
    except Exception as error:
        raise EpisodeFailed(stage, f"{who}: {describe_error(error)}" if who else describe_error(error)) from error


@dataclass(slots=True)
class _Asked:
    """A decision before its action was sent."""

    tick: int
    state: str
    snapshot: Snapshot
    teacher_action: str | None
    answer: Answer
    effective_action: str
    schema_error: str | None
    error: str | None
    thought_ms: float
    decided_at: datetime


class _Asker:
    """Shows the policy a state, checks its answer, and gives up after ten exceptions in a row."""

    def __init__(self, scenario: Scenario, policy: Policy, instructions: str | None) -> None:
        self._scenario = scenario
        self._policy = policy
        self._options = scenario.options
        self._instructions = instructions
        self._errors_in_a_row = 0
        self._tell_tick = policy.at if isinstance(policy, SeesTick) else _ignore_tick

    def ask(self, tick: int, snapshot: Snapshot, previous: str | None) -> _Asked:
        who = "state text"
        try:
            text = self._scenario.describe(snapshot, previous)
            who = "teacher"
            teacher_action = self._teach(snapshot)
        except Exception as error:
            raise EpisodeFailed("scenario", f"{who}: {describe_error(error)}") from error
        self._tell_tick(tick)
        begun_s = perf_counter()
        answer, error_text = self._answer(snapshot, text, teacher_action)
        thought_ms = _thought_ms(answer, 1_000 * (perf_counter() - begun_s))
        schema_error = POLICY_ERROR if error_text else None
        if schema_error is None and answer.choice not in self._options:
            schema_error, error_text = answer.cause or NOT_AN_OPTION, answer.detail
        action = self._options[0] if schema_error or answer.choice is None else answer.choice
        now = datetime.now(UTC)
        return _Asked(tick, text, snapshot, teacher_action, answer, action, schema_error, error_text, thought_ms, now)

    def _teach(self, snapshot: Snapshot) -> str | None:
        if self._scenario.teacher is None:
            return None
        action = self._scenario.teacher(snapshot)
        if action not in self._options:
            raise ValueError(f"that of {self._scenario.name!r} said {action!r}, not one of {self._options}")
        return action

    def _answer(self, snapshot: Snapshot, text: str, teacher_action: str | None) -> tuple[Answer, str | None]:
        """The policy's answer, and the scrubbed text of its exception where it raised one (that is data)."""
        try:
            answer = checked_answer(self._policy.act(snapshot, text, self._options, self._instructions), teacher_action)
        except (TryVoid, BudgetSpent, RunStopped, StorageError):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a policy raises, the game goes on
            return NO_ANSWER, self._count_error(describe_error(error))
        if answer.asked:  # a turn of the teacher says nothing about the policy
            self._errors_in_a_row = 0
        return answer, None

    def _count_error(self, text: str) -> str:
        self._errors_in_a_row += 1
        if self._errors_in_a_row >= MAX_POLICY_ERRORS_IN_A_ROW:
            raise EpisodeFailed("policy", f"{MAX_POLICY_ERRORS_IN_A_ROW} errors in a row, the last: {text}")
        return text


def _ignore_tick(_tick: int) -> None:
    pass


def _thought_ms(answer: Answer, elapsed_ms: float) -> float:
    """How long the policy thought: what it says, else what passed on our clock; nothing where it was not asked."""
    if not answer.asked:
        return 0.0
    said = answer.latency_ms
    return elapsed_ms if said is None or not isfinite(said) or said < 0 else float(said)


def _complete(asked: _Asked, course: Course, capped: bool) -> Decision:
    transition = course.transition
    acted_by = "fallback" if asked.schema_error else asked.answer.acted_by
    return Decision(
        tick=asked.tick,
        state=asked.state,
        snapshot=asked.snapshot,
        teacher_action=asked.teacher_action,
        answer=asked.answer,
        effective_action=None if course.late else asked.effective_action,
        acted_by=None if course.late else acted_by,
        transition=transition,
        terminated=transition.terminated,
        truncated=transition.truncated or capped,
        decided_at=asked.decided_at,
        schema_error=asked.schema_error,
        error=asked.error,
        waited_tics=course.waited_tics,
    )


class _Tally:
    """What is counted while an episode runs. Decisions are taken in some at a time: between any two of them the engine
    empties the processor's caches."""

    def __init__(self, realtime: RealTime | None) -> None:
        self.started_at = datetime.now(UTC)
        self.steps = 0
        self.reward = 0.0
        self.late = 0
        self.waited_tics = None if realtime is None else 0
        self.latencies_ms: list[float] = []
        self.out_of_schema: Counter[str] = Counter()
        self.trajectory = TrajectoryHash()
        self.frames = FramesHash()
        self._pending: list[Decision] = []

    def add(self, decision: Decision) -> None:
        self.steps += 1
        self._pending.append(decision)
        if len(self._pending) >= BATCH:
            self.settle()

    def settle(self) -> None:
        """Take in what waits."""
        pending, self._pending = self._pending, []
        for decision in pending:
            self._take_in(decision)

    def _take_in(self, decision: Decision) -> None:
        self.reward += decision.transition.reward
        self.late += decision.effective_action is None
        if self.waited_tics is not None:
            self.waited_tics += decision.waited_tics or 0
        if decision.answer.latency_ms is not None:
            self.latencies_ms.append(decision.answer.latency_ms)
        if decision.schema_error is not None:
            self.out_of_schema[decision.schema_error] += 1
        self.trajectory.add(decision)
        self.frames.add(decision.snapshot.frame)


def _finish(key: EpisodeKey, rules: EpisodeRules, tally: _Tally, snapshot: Snapshot, last: Decision | None) -> Episode:
    """Close the episode. `final_*` exist only where it was truncated and there was still something to see."""
    scenario = rules.scenario
    tally.settle()
    after = last.transition.snapshot if last is not None and last.truncated else None
    with _blame("scenario"):
        outcome = Outcome(tally.reward, _end_reason(last))
        with _blame("scenario", f"metric {scenario.metric.name!r}"):
            metric = _measured(scenario.metric, snapshot, tally, rules.tics, outcome)
        final_state = scenario.describe(after, last.effective_action) if last is not None and after else None
    return Episode(
        key=key,
        metric_name=scenario.metric.name,
        metric=metric,
        steps=tally.steps,
        total_reward=tally.reward,
        end_reason=outcome.end_reason,
        terminated=last is not None and last.terminated,
        truncated=last is not None and last.truncated,
        out_of_schema_by_cause=dict(tally.out_of_schema),
        latency_ms_p50=percentile(tally.latencies_ms, 50),
        latency_ms_p95=percentile(tally.latencies_ms, 95),
        trajectory_hash=tally.trajectory.hexdigest(),
        frames_hash=tally.frames.hexdigest(),
        final_state=final_state,
        final_frame=after.frame if after else None,
        started_at=tally.started_at,
        ended_at=datetime.now(UTC),
        waited_tics=tally.waited_tics,
    )


def _measured(metric: Metric, last: Snapshot, tally: _Tally, tics: int, outcome: Outcome) -> float:
    """The metric over what was played: decisions whose action was sent, and the tics spent waiting."""
    waited = metric.per_waited_tic * (tally.waited_tics or 0)
    value = metric.value(last, tally.steps - tally.late, tics, outcome) + waited
    if not isfinite(value):
        raise ValueError(f"it is {value}: must be a finite number")
    return value


def _end_reason(last: Decision | None) -> EndReason | None:
    """None where nothing was decided, or the environment gave no reason."""
    if last is None:
        return None
    capped = last.truncated and not last.transition.truncated
    return "step_cap" if capped else last.transition.end_reason
