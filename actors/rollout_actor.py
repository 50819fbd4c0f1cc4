"""A process with one worker, or with several that wait for models. `RolloutActor` is a plain class; what Ray runs is at
the bottom.

A failure is a value here, so that the true first error reaches the driver as it was, whatever can be pickled.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from rollouts.doom.engine_home import sweep_shared_memory
from rollouts.pools.players import MakePlayer
from rollouts.pools.pool import CountsDecisions, Failure, Player, Task
from rollouts.pools.wear import Wear
from rollouts.records import UnitReport
from rollouts.scratch import sweep_scratch


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker is made; `name` is for people."""

    name: str


@dataclass(frozen=True, slots=True)
class Played:
    """A task is through. `spent` says why the process should now be replaced, where it should."""

    report: UnitReport
    spent: str | None


class RolloutActor:
    """Owns one player a seat; each is used by one thread at a time. The process is worn out after `most_episodes` or
    above `most_mb` MiB. `hide_gpus` is for actors that asked for none: Ray no longer hides them."""

    def __init__(self, hide_gpus: bool, most_episodes: int | None = None, most_mb: int | None = None) -> None:
        if hide_gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._players: dict[int, Player] = {}
        self._decisions_before: dict[int, int] = {}
        self._wear = Wear(most_episodes, most_mb)

    def prepare(self, seat: int, name: str, make: MakePlayer) -> Ready | Failure:
        """Make a player. Apart from `__init__`, so that the order is unpickled (and torch imported) after it."""
        with suppress(OSError):
            sweep_shared_memory()
            sweep_scratch()
        node = socket.gethostname()
        try:
            self._players[seat] = make(name, node)
        except Exception as error:  # noqa: BLE001  it is for the driver to judge
            return Failure.of(error)
        return Ready(f"{name} on {node}")

    def play(self, seat: int, task: Task) -> Played | Failure:
        """Play and stage; one task at a time on each seat."""
        player = self._players.get(seat)
        if player is None:
            return Failure("error", "the worker was asked to play before it was made")
        self._decisions_before[seat] = _decisions(player)
        try:
            report = player.play(task.unit, task.attempt, task.skip)
        except Exception as error:  # noqa: BLE001  it is for the driver to judge
            return Failure.of(error)
        return Played(report, self._wear.worn_out(len(task.unit.episodes)))

    def progress(self, seat: int) -> int:
        """Decisions of the present task. Answers while `play` runs."""
        return _decisions(self._players.get(seat)) - self._decisions_before.get(seat, 0)

    def close(self, seat: int) -> None:
        """Give everything of a seat back; once all are the process may be ended without leaving anything."""
        player = self._players.pop(seat, None)
        if player is not None:
            player.close()


def _decisions(player: Player | None) -> int:
    return player.decisions if isinstance(player, CountsDecisions) else 0


WATCH = "watch"
_OPTIONS: dict[str, Any] = {"max_restarts": 0, "max_task_retries": 0, "concurrency_groups": {WATCH: 1}}
RemoteRolloutActor: Any = ray.remote(**_OPTIONS)(RolloutActor)
