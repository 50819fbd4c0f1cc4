"""Actors that hold networks for many rollout actors and answer them in batches: one GPU feeds many games.

A server that dies is made again by Ray and loads again; what it was asked is lost, so that those tries are void. The
class is plain; what Ray runs is at the bottom.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import ray
from ray import exceptions

from actors.capacity import Node, Share
from actors.placement import Placement, matching
from actors.ray_reasons import why
from actors.served_policy import Held, ServedPolicies
from rollouts.errors import RunStopped, UsageError
from rollouts.policies.base import ActsInBatches, Policy, Question
from rollouts.policies.batching import Batcher, Outcome
from rollouts.policies.network_inputs import Frames
from rollouts.policies.server_messages import pack_outcome, read_question
from rollouts.policies.socket_line import SocketDoor
from rollouts.pools.pool import Failure
from rollouts.worker import WorkOrder

LOAD_S = 900.0


@dataclass(frozen=True)
class Serving:
    """What a server holds: the policies that are asked for as `specs`, for the scenarios of `order`, on `gpus` of a GPU
    (0: on the CPU). A batch has at most `most` questions, and none of them waits longer than `wait_s` for others."""

    order: WorkOrder
    specs: tuple[str, ...]
    gpus: float
    most: int
    wait_s: float


class PolicyServer:
    """Loads when it is told to, or first asked."""

    def __init__(self, serving: Serving) -> None:
        if not serving.gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._serving = serving
        self._loading = asyncio.Lock()
        self._policies: dict[str, Policy] = {}
        self._batchers: dict[str, Batcher] = {}
        self._seats = count()
        self._door = SocketDoor(self.reply)

    async def load(self) -> dict[str, Held] | Failure:
        """Make the policies, once."""
        async with self._loading:
            for spec in self._serving.specs:
                if spec not in self._policies:
                    try:
                        self._policies[spec] = await asyncio.to_thread(self._open, spec)
                    except Exception as error:  # noqa: BLE001  it is for the driver to judge
                        return Failure.of(error)
        return {spec: _held(policy) for spec, policy in self._policies.items()}

    async def reply(self, message: bytes) -> bytes:
        """The answer to a question, or the error that it is; both as in server_messages.py."""
        try:
            outcome = await self.answer(*read_question(message))
        except RunStopped as error:
            outcome = error
        return pack_outcome(outcome)

    async def answer(self, spec: str, asker: str, question: Question) -> Outcome:
        """What the policy `spec` says to a question, or the error that it raised."""
        if spec not in self._serving.specs:
            return RunStopped(f"the policy server was asked for {spec!r}, but holds {', '.join(self._serving.specs)}")
        if spec not in self._policies and isinstance(failure := await self.load(), Failure):
            return RunStopped(f"the policy server cannot load {spec!r} again: {failure.cause}")
        if spec not in self._batchers:
            policy = self._policies[spec]
            assert isinstance(policy, ActsInBatches), "only such are served"
            self._batchers[spec] = Batcher(policy.act_batch, self._serving.most, self._serving.wait_s)
        return await self._batchers[spec].ask(asker, question)

    async def door(self) -> str | None:
        """Where askers of the same machine find it, without Ray in between; None where there can be no socket, such as
        in a temporary folder whose name is too long for one."""
        try:
            return await self._door.open()
        except OSError:
            return None

    async def seat(self) -> int:
        """A number for each asker, so that they spread evenly over the servers."""
        return next(self._seats)

    async def pid(self) -> int:
        """Its process, for people and tests."""
        return os.getpid()

    async def calls(self) -> int:
        """Calls of the networks so far."""
        return sum(batcher.calls for batcher in self._batchers.values())

    def _open(self, spec: str) -> Policy:
        order = self._serving.order
        return order.make_policy(spec, order.config.resolved()[0], self._serving.gpus)


def _held(policy: Policy) -> Held:
    """A policy that does not say that it needs no frames is shown them."""
    frames = getattr(policy, "needs_frames", None) is not False
    return Held(policy.describe(), getattr(policy, "looks", Frames()) if frames else None)


_OPTIONS: dict[str, Any] = {"max_restarts": -1, "max_task_retries": 0, "num_cpus": 0, "max_concurrency": 10_000}
RemotePolicyServer: Any = ray.remote(**_OPTIONS)(PolicyServer)


def start_servers(n: int, serving: Serving, placement: Placement, grows: bool) -> ServedPolicies:
    """Start `n` servers and wait until all have loaded.

    Errors: UsageError where the nodes cannot hold them, or they cannot load; RunStopped where one dies of it, or finds
    no place in time.
    """
    _check_room(n, serving.gpus, matching(placement.nodes(), placement.labels), grows)
    where = placement.options()
    servers = tuple(RemotePolicyServer.options(num_gpus=serving.gpus, **where).remote(serving) for _ in range(n))
    _wait_for_places(servers, placement)
    try:
        loaded = ray.get([server.load.remote() for server in servers], timeout=LOAD_S)
    except exceptions.GetTimeoutError as error:
        raise RunStopped(f"a policy server was not ready within {LOAD_S:g} s") from error
    except exceptions.RayActorError as error:
        raise RunStopped(f"a policy server died while it loaded: {why(error)}") from error
    for held in loaded:
        if isinstance(held, Failure):
            raise UsageError(f"the policy server cannot load: {held.cause}")
    return ServedPolicies(servers, loaded[0])


def _wait_for_places(servers: Sequence[Any], placement: Placement) -> None:
    """One that is not made for another reason has a place too: what it is asked next tells why."""
    places = [server.__ray_ready__.remote() for server in servers]
    _, without = ray.wait(places, num_returns=len(places), timeout=placement.timeout_s, fetch_local=False)
    if without:
        raise RunStopped(
            f"no node has had room for {len(without)} of {len(servers)} policy servers within "
            f"{placement.timeout_s:g} s (--placement-timeout): {placement.asked_and_offered()}"
        )


def _check_room(n: int, gpus: float, nodes: Sequence[Node], grows: bool) -> None:
    if not gpus or grows:
        return
    room = sum(Share(0.0, gpus).fits(node) for node in nodes)
    if n > room:
        raise UsageError(
            f"--policy-server {n} with --policy-server-gpus {gpus:g}: the nodes of Ray have "
            f"{sum(node.gpus for node in nodes):g} GPUs, which is room for {room}"
        )
