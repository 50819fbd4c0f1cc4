"""The pool that is this very process: one slot, no Ray."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

from rollouts.pools.pool import (
    CountsDecisions,
    Event,
    Failure,
    Finished,
    Noted,
    Player,
    Started,
    StartFailed,
    Task,
    TaskFailed,
)
from rollouts.pools.stall import stall_watch
from rollouts.pools.wear import Wear
from rollouts.signals import Signals


class LocalPool:
    """Plays inside `wait`, in the caller's thread. With `signals`, the first one raises Interrupted out of `wait`.

    `stall_s`: no decision for so long voids the task, and so do `unit_s` altogether (main thread only). A worn-out
    process cannot be replaced here: that is said once.
    """

    slots = 1

    def __init__(
        self,
        make_player: Callable[[], Player],
        signals: Signals | None = None,
        stall_s: float | None = None,
        wear: Wear | None = None,
        unit_s: float | None = None,
    ) -> None:
        self._make_player = make_player
        self._signals = signals
        self._stall_s = stall_s
        self._wear = wear
        self._unit_s = unit_s
        self._player: Player | None = None
        self._starting = False
        self._task: Task | None = None

    def start(self, slot: int) -> None:
        assert slot == 0
        assert self._player is None
        self._starting = True

    def send(self, slot: int, task: Task) -> None:
        assert slot == 0
        assert self._player is not None
        assert self._task is None
        self._task = task

    def kill(self, slot: int) -> None:
        assert slot == 0
        self.close()

    def wait(self, timeout_s: float) -> Sequence[Event]:
        with self._signals.interruptible() if self._signals else nullcontext():
            if self._starting:
                return [self._make()]
            if self._task is not None:
                return list(self._play(self._task))
            time.sleep(timeout_s)
        return []

    def close(self) -> None:
        player, self._player, self._task, self._starting = self._player, None, None, False
        if player is not None:
            with suppress(Exception):
                player.close()

    def _make(self) -> Event:
        self._starting = False
        try:
            self._player = self._make_player()
        except Exception as error:  # noqa: BLE001  whatever it is, the scheduler decides
            return StartFailed(0, Failure.of(error))
        return Started(0, "this process")

    def _play(self, task: Task) -> Iterator[Event]:
        assert self._player is not None
        self._task = None
        try:
            with self._watched(self._player):
                report = self._player.play(task.unit, task.attempt, task.skip)
        except Exception as error:  # noqa: BLE001  whatever it is, the scheduler decides
            yield TaskFailed(0, Failure.of(error))
            return
        yield Finished(0, report)
        if self._wear is not None and (reason := self._wear.worn_out(len(task.unit.episodes))):
            self._wear = None
            yield Noted(f"{reason}: the local pool cannot replace its process, use --pool ray for long runs")

    @contextmanager
    def _watched(self, player: Player) -> Iterator[None]:
        if self._stall_s is None or not isinstance(player, CountsDecisions):
            yield
        else:
            with stall_watch(lambda: player.decisions, self._stall_s, self._unit_s):
                yield
