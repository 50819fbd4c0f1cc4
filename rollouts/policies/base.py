"""What a policy is: something that answers one decision at a time.

The loop that calls it (rollouts/episode.py):

    policy.reset(key, rng)                      # where the policy has one
    while not environment.finished:
        answer = policy.act(snapshot, text, options, instructions)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from rollouts.calls.chat_records import ChatReply, ChatRequest, WireName
from rollouts.errors import UsageError
from rollouts.policies.model_settings import ModelSettings
from rollouts.policies.reply_rules import SchemaError
from rollouts.records import Answer, EpisodeKey, PolicyDescription, Snapshot
from rollouts.scenarios.scenario import Scenario, Teacher


class Policy(Protocol):
    """One player. An exception from `act` is data (cause `policy_error`), except `TryVoid`, `BudgetSpent` and
    `RunStopped`.

    A policy may also have `reset(key, rng)`, called before each episode, `at(tick)`, `close()`,
    `check_scenario(scenario)`, `act_batch(questions)`, and the attributes `needs_frames` and `needs_gpu`: True where it
    cannot play without. Where it lets the scenario's teacher act, its answer says so: `acted_by="teacher"`,
    `asked=False`, and the teacher's own action.
    """

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        """Choose one of `options` (the scenario's order). Frames in `snapshot` are read-only."""
        ...

    def describe(self) -> PolicyDescription: ...


@runtime_checkable
class HasReset(Protocol):
    def reset(self, key: EpisodeKey, rng: np.random.Generator) -> None:
        """Start an episode; `rng` depends on the run seed, scenario, seed and index alone."""
        ...


@runtime_checkable
class SeesTick(Protocol):
    def at(self, tick: int) -> None:
        """Called before each `act`: which decision of the episode it is, from 0."""
        ...


class ModelCall(Protocol):
    """Asks a model and waits for the reply, whatever comes of it (`ChatReply.error`); `where` is the endpoint's URL.

    Raises `BudgetSpent` and `RunStopped`.
    """

    @property
    def where(self) -> str: ...

    def __call__(self, request: ChatRequest, /) -> ChatReply: ...

    def close(self) -> None: ...


class ModelCalls(Protocol):
    """Lets a policy call models, through the run's limits and budget."""

    def open(self, wire: WireName) -> ModelCall: ...


@runtime_checkable
class AsksModel(Protocol):
    """A policy whose every decision is a call to a model."""

    wire: WireName

    def example(self, instructions: str | None, text: str, exchanges: int) -> ChatRequest:
        """A request as `act` sends it for a state `text` after so many exchanges: to look ahead, or to try with."""
        ...

    def check(self, reply: ChatReply, where: str) -> SchemaError | None:
        """Why there is no answer in a reply without error, None where there may be one. Raises `RunStopped` where it
        shows that the endpoint `where` cannot be played with."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """One decision to be made: what `act` is told, as a record."""

    snapshot: Snapshot
    text: str
    options: tuple[str, ...]
    instructions: str | None


@runtime_checkable
class ActsInBatches(Protocol):
    """Answers many decisions at once, of any episodes: what a policy server asks (`--policy-server`).

    One that has no `act` beside it is asked for batches of one. It must not remember episodes, so it has no `reset`.
    """

    def act_batch(self, questions: Sequence[Question]) -> Sequence[Answer]:
        """One answer a question, in their order. If it raises, each question is asked again alone."""
        ...

    def describe(self) -> PolicyDescription: ...


@runtime_checkable
class ChecksScenario(Protocol):
    """A policy that cannot play every scenario."""

    def check_scenario(self, scenario: Scenario) -> None:
        """Errors: UsageError saying why it cannot play this one."""
        ...


class OpensPolicies(Protocol):
    """Holds policies outside the workers; picklable."""

    def open(self, spec: str, scenario: Scenario) -> Policy | None:
        """A policy that asks the one held elsewhere; None for one that is not held there."""
        ...


@runtime_checkable
class TriesOut(Protocol):
    """A policy that can be asked a question of no game at all, before anybody plays."""

    def try_out(self, options: tuple[str, ...], instructions: str | None) -> None:
        """Errors: TypeError or ValueError where the answer is none."""
        ...


def _nobody_makes(spec: str) -> Policy:
    raise UsageError(f"policy {spec!r} cannot be made here")


@dataclass(frozen=True)
class PolicyContext:
    """What a policy may know when it is made: its scenario, what followed the colon in `NAME:ARGUMENT`, how a model is
    shown the game, and who calls models for it (None where nobody plays).

    `make` makes another policy for the same scenario, for one that holds another (rollouts/policies/mixture.py).
    `gpus`: the part of a GPU that is its own, 0 for the CPU; None where it is made only to be checked and described.
    """

    scenario: Scenario
    argument: str | None = None
    make: Callable[[str], Policy] = field(default=_nobody_makes, repr=False)
    gpus: float | None = 0.0
    settings: ModelSettings = field(default_factory=ModelSettings)
    calls: ModelCalls | None = None


def refuse_argument(name: str, context: PolicyContext) -> None:
    """For a policy that takes none. Errors: UsageError."""
    if context.argument is not None:
        raise UsageError(f"policy {name!r} takes no argument, but was given {context.argument!r}")


def close_policy(policy: object) -> None:
    """Give back what it holds, where it holds anything."""
    close = getattr(policy, "close", None)
    if callable(close):
        close()


@contextmanager
def closing_policy(policy: Policy) -> Iterator[Policy]:
    """For a policy that is only looked at."""
    try:
        yield policy
    finally:
        close_policy(policy)


def teacher_of(name: str, scenario: Scenario) -> Teacher:
    """The teacher that policy `name` cannot do without. Errors: UsageError."""
    if scenario.teacher is None:
        raise UsageError(
            f"policy {name!r} needs a teacher, and scenario {scenario.name!r} has none: give a policy that needs none, "
            "such as random, or leave that scenario out"
        )
    return scenario.teacher


PolicyFactory = Callable[[PolicyContext], Policy]
