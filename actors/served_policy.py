"""A policy whose network is held by a policy server: the rollout actor's side of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import uuid4

import ray
from ray import exceptions

from rollouts.errors import RolloutsError, RunStopped, TryVoid
from rollouts.policies.base import Policy, Question
from rollouts.policies.network_inputs import Frames
from rollouts.policies.server_messages import pack_question, read_outcome
from rollouts.policies.socket_line import SocketLine
from rollouts.records import Answer, PolicyDescription, Snapshot
from rollouts.scenarios.scenario import Scenario

ANSWER_S = 60.0
BACK_S = 90.0
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Held:
    """What the servers hold: who it is, and what of a frame it looks at, None for nothing."""

    who: PolicyDescription
    looks: Frames | None


@dataclass(frozen=True)
class ServedPolicies:
    """Opens policies for workers. `servers` are handles of actors that all hold the same policies, by what these are
    asked for as. One that gives no answer for `patience_s` is started again."""

    servers: tuple[Any, ...]
    held: Mapping[str, Held]
    patience_s: float = ANSWER_S

    def open(self, spec: str, scenario: Scenario) -> Policy | None:  # noqa: ARG002  it was checked at the start
        """A policy that asks one of the servers, the same for all its life; None where they do not hold it.

        Raises TryVoid where a server was lost.
        """
        if spec not in self.held:
            return None
        seat: int = _told(self.servers[0], self.servers[0].seat.remote(), self.patience_s)
        return ServedPolicy(self.servers[seat % len(self.servers)], spec, self.held[spec], self.patience_s)


class ServedPolicy:
    """Asks a server and waits. Its latency is that of the asker: the way, the batch and the network."""

    def __init__(self, server: Any, spec: str, held: Held, patience_s: float) -> None:
        self._server = server
        self._spec = spec
        self._held = held
        self._patience_s = patience_s
        self._me = uuid4().hex
        self._ask: Ask | None = None

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        """Raises TryVoid where the server was lost, once it is back; RunStopped where it does not come back."""
        begun_s = time.perf_counter()
        question = Question(self._as_wanted(snapshot), text, options, instructions)
        answer = self._answer(question)
        return replace(answer, latency_ms=(time.perf_counter() - begun_s) * 1000)

    def describe(self) -> PolicyDescription:
        return self._held.who

    def _as_wanted(self, snapshot: Snapshot) -> Snapshot:
        """What is not looked at is not sent: a small picture is small on the way, too."""
        frame, looks = snapshot.frame, self._held.looks
        return replace(snapshot, frame=None if frame is None or looks is None else looks.fit(frame))

    def close(self) -> None:
        if self._ask is not None:
            self._ask.close()

    def _answer(self, question: Question) -> Answer:
        self._ask = self._ask or _open_line(self._server, self._patience_s)
        try:
            outcome = read_outcome(self._ask(pack_question(self._spec, self._me, question)))
        except TryVoid:
            self.close()
            self._ask = None
            raise
        if isinstance(outcome, RolloutsError):
            raise outcome
        return outcome


class Ask(Protocol):
    """A way to ask a server: messages as in server_messages.py. Raises TryVoid where it is lost, once it is back;
    RunStopped where it stays away."""

    def __call__(self, message: bytes) -> bytes: ...

    def close(self) -> None: ...


def _open_line(server: Any, patience_s: float) -> Ask:
    """Straight to a server of this machine, else through Ray."""
    path: str | None = _told(server, server.door.remote(), patience_s)
    if path is not None:
        with suppress(OSError):
            return _Straight(server, SocketLine(path, patience_s), patience_s)
    return _ThroughRay(server, patience_s)


@dataclass(frozen=True)
class _Straight:
    server: Any
    line: SocketLine
    patience_s: float

    def __call__(self, message: bytes) -> bytes:
        try:
            return self.line.ask(message)
        except TimeoutError as error:
            raise _hung(self.server, self.patience_s) from error
        except OSError as error:
            raise _lost(self.server) from error

    def close(self) -> None:
        self.line.close()


@dataclass(frozen=True)
class _ThroughRay:
    server: Any
    patience_s: float

    def __call__(self, message: bytes) -> bytes:
        reply: bytes = _told(self.server, self.server.reply.remote(message), self.patience_s)
        return reply

    def close(self) -> None: ...


def _told(server: Any, asked: Any, patience_s: float) -> Any:
    """What the server says through Ray. Errors: as `Ask`."""
    try:
        return ray.get(asked, timeout=patience_s)
    except exceptions.GetTimeoutError as error:
        raise _hung(server, patience_s) from error
    except exceptions.RayActorError as error:
        raise _lost(server) from error


def _hung(server: Any, patience_s: float) -> TryVoid:
    """Ends it, so that Ray makes it again."""
    ray.kill(server, no_restart=False)
    return TryVoid(f"the policy server gave no answer within {patience_s:g} s and was started again")


def _lost(server: Any) -> TryVoid:
    """Waits for its return: or every try of every worker would be void until then, and that would be taken for a fault
    of the units. Raises RunStopped where it stays away."""
    over_s = time.monotonic() + BACK_S
    while time.monotonic() < over_s:
        try:
            ray.get(server.load.remote(), timeout=max(over_s - time.monotonic(), 0.1))
        except exceptions.RayActorError:
            time.sleep(LOOK_EVERY_S)
        except exceptions.GetTimeoutError:
            break
        else:
            return TryVoid("the policy server was lost and started again")
    raise RunStopped(f"the policy server was lost and is not back after {BACK_S:g} s")
