"""Workers that wait more than they work: one process has many lanes, each with one task, all in one event loop.

`LocalLanes` is the pool that is this very process; actors have lanes too.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rollouts.calls.limits import Limiter
from rollouts.pools.pool import Event, Failure, Finished, Pool, Started, StartFailed, Task, TaskFailed
from rollouts.records import SideReport, Unit

CLOSE_S = 1.0


class AsyncPlayer(Protocol):
    """Who does many tasks at once in one event loop. A task that is cancelled leaves nothing behind that counts."""

    async def play(self, unit: Unit, attempt: str) -> SideReport: ...

    async def close(self) -> None: ...


class MakeAsyncPlayer(Protocol):
    """Makes a player that calls itself `worker` (also to the limiter). Picklable for pools of other processes."""

    def __call__(self, worker: str, limiter: Limiter | None) -> AsyncPlayer: ...


async def attempted(player: AsyncPlayer, task: Task) -> SideReport | Failure:
    """What became of a task; a failure is a value, so that the true first error reaches the driver."""
    try:
        return await player.play(task.unit, task.attempt)
    except Exception as error:  # noqa: BLE001  it is for the scheduler to judge
        return Failure.of(error)


def told(slot: int, result: SideReport | Failure) -> Event:
    """The event that a task's result is."""
    if isinstance(result, Failure):
        return TaskFailed(slot, result)
    if result.complete:
        return Finished(slot, result)
    kind, cause = result.stop or ("stopped", "only a part of a unit could be done")
    return Finished(slot, result, halted=Failure("budget" if kind == "budget" else "systemic", cause))


class LanePool(Pool, Protocol):
    """A pool whose `wait` another thread can end, since units arrive from there."""

    def wake(self) -> None: ...


@dataclass(slots=True)
class _Lane:
    """One life in a slot; `task` is what it does just now."""

    life: int
    task: Future[None] | None = None


class _Running:
    """An event loop that turns in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Coroutine[None, None, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(job, self._loop)

    def close(self) -> None:
        """A loop that is stuck is left behind."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()


class LocalLanes:
    """Lanes in a thread of this process; `make_player` runs there.
    There is no watchdog, since the thread could not be replaced: use it with limits that know no stall.
    """

    def __init__(self, make_player: Callable[[], AsyncPlayer], slots: int, name: str = "lanes") -> None:
        self.slots = slots
        self._make_player = make_player
        self._name = name
        self._running: _Running | None = None
        self._player: AsyncPlayer | None = None
        self._lanes: dict[int, _Lane] = {}
        self._lives = 0
        self._events: queue.SimpleQueue[tuple[int, int, Event] | None] = queue.SimpleQueue()

    def start(self, slot: int) -> None:
        assert slot not in self._lanes, f"lane {slot} is there"
        self._running = self._running or _Running(self._name)
        self._lives += 1
        lane = self._lanes[slot] = _Lane(self._lives)
        self._tell(slot, lane, self._open(slot))

    def send(self, slot: int, task: Task) -> None:
        self._tell(slot, self._lanes[slot], self._play(slot, task))

    def kill(self, slot: int) -> None:
        lane = self._lanes.pop(slot, None)
        if lane is not None and lane.task is not None:
            lane.task.cancel()

    def wait(self, timeout_s: float) -> Sequence[Event]:
        found: list[tuple[int, int, Event] | None] = []
        with suppress(queue.Empty):
            found.append(self._events.get(timeout=timeout_s))
            while True:
                found.append(self._events.get_nowait())
        return [event for told in found if told is not None and (event := self._of_now(*told)) is not None]

    def wake(self) -> None:
        """End a `wait` that is under way; for other threads."""
        self._events.put(None)

    def close(self) -> None:
        self._lanes.clear()
        running, self._running = self._running, None
        if running is not None:
            with suppress(Exception):
                running.submit(self._end()).result(CLOSE_S)
            running.close()

    def _tell(self, slot: int, lane: _Lane, job: Coroutine[None, None, Event]) -> None:
        """Do `job` in the loop; what it returns is said by `wait`, unless the lane is killed meanwhile."""

        async def run(life: int) -> None:
            self._events.put((slot, life, await job))

        assert self._running is not None
        lane.task = self._running.submit(run(lane.life))

    def _of_now(self, slot: int, life: int, event: Event) -> Event | None:
        lane = self._lanes.get(slot)
        if lane is None or lane.life != life:
            return None
        if isinstance(event, StartFailed):
            del self._lanes[slot]
        return event

    async def _open(self, slot: int) -> Event:
        if self._player is None:
            try:
                self._player = self._make_player()
            except Exception as error:  # noqa: BLE001  it is for the scheduler to judge
                return StartFailed(slot, Failure.of(error))
        return Started(slot, f"lane {slot} of this process")

    async def _play(self, slot: int, task: Task) -> Event:
        assert self._player is not None
        return told(slot, await attempted(self._player, task))

    async def _end(self) -> None:
        """First the tasks, then the player, then the generators (a client's connections end with them)."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        player, self._player = self._player, None
        if player is not None:
            await player.close()
        await asyncio.get_running_loop().shutdown_asyncgens()
