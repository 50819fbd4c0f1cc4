"""A process that judges many units at once: what graders and summarizers have in common. Plain classes; see the bottom.

Everything that blocks is in threads (the player's business), or one slow file would stall every request under way.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from actors.governor import GovernorHandle
from rollouts.pools.lanes import AsyncPlayer, MakeAsyncPlayer, attempted
from rollouts.pools.pool import Failure, Task
from rollouts.records import SideReport


class LaneActor:
    """Owns one player. It takes no CPU of its own and sees no GPU."""

    def __init__(self) -> None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._player: AsyncPlayer | None = None

    async def prepare(self, name: str, make: MakeAsyncPlayer, governor: Any, in_flight: int) -> str | Failure:
        """Make the player; its name for people. `governor` is None for one that calls no models."""
        limiter = None if governor is None else GovernorHandle(governor, in_flight)
        try:
            self._player = await asyncio.to_thread(make, name, limiter)
        except Exception as error:  # noqa: BLE001  it is for the driver to judge
            return Failure.of(error)
        return f"{name} on {socket.gethostname()}"

    async def play(self, task: Task) -> SideReport | Failure:
        """Do a task and stage what comes of it. Many at once."""
        if self._player is None:
            return Failure("error", "the worker was asked to work before it was made")
        return await attempted(self._player, task)

    async def pulse(self) -> None:
        """Answers as long as the event loop turns."""

    async def close(self) -> None:
        """Give everything back; the process may then be ended without leaving anything."""
        player, self._player = self._player, None
        if player is not None:
            await player.close()


LANE_OPTIONS: dict[str, Any] = {
    "max_restarts": 0,
    "max_task_retries": 0,
    "num_cpus": 0,
    "num_gpus": 0,
    "max_concurrency": 10_000,
}
