"""A watchdog inside the process that plays: for the pool that has no other process to do it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil

from rollouts.errors import TryVoid

ENGINE_NAME = "vizdoom"
_LAST_CHANCE_S = 2.0
_BIRTH_S = 5.0  # the engine's library ends this process too where an engine dies before it has answered


class Stalled(TryVoid):
    """No decision was made for too long."""


def kill_engines(older_than_s: float = 0.0) -> int:
    """SIGKILL the game engines of that age that are children of this process; how many there were."""
    killed = 0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if child.name() == ENGINE_NAME and time.time() - child.create_time() >= older_than_s:
                child.kill()
                killed += 1
    return killed


@contextmanager
def stall_watch(decisions: Callable[[], int], stall_s: float, unit_s: float | None = None) -> Iterator[None]:
    """Inside, when `decisions()` has not changed for `stall_s`: kill the engines (a call into one then fails as lost),
    and if that changes nothing raise Stalled in the main thread. After `unit_s` altogether raise it at once.

    For the main thread only; it uses SIGALRM.
    """
    over = threading.Event()
    watch = _Watch(decisions, stall_s, unit_s, over, threading.get_ident())

    def raise_stalled(_number: int, _frame: FrameType | None) -> None:
        if not over.is_set():
            raise Stalled(watch.why)

    before = signal.signal(signal.SIGALRM, raise_stalled)
    watcher = threading.Thread(target=watch.run, name="stall watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGALRM, before)


class _Watch:
    """First the engines, `_LAST_CHANCE_S` later the main thread."""

    def __init__(
        self, decisions: Callable[[], int], stall_s: float, unit_s: float | None, over: threading.Event, main: int
    ) -> None:
        self._decisions = decisions
        self._stall_s = stall_s
        self._unit_s = unit_s
        self._over = over
        self._main = main
        self._seen = -1
        self._deadline = 0.0
        self._engines_killed = False
        self.why = f"no decision for {stall_s:g} s: the environment or the policy hangs"

    def run(self) -> None:
        last_moment = float("inf") if self._unit_s is None else time.monotonic() + self._unit_s
        while not self._over.wait(min(self._stall_s / 4, (self._unit_s or _LAST_CHANCE_S) / 4, _LAST_CHANCE_S)):
            decisions, now = self._decisions(), time.monotonic()
            if now >= last_moment:
                self.why = f"a unit took longer than {self._unit_s:g} s"
                signal.pthread_kill(self._main, signal.SIGALRM)
                last_moment = now + _LAST_CHANCE_S
                kill_engines(_BIRTH_S)
            elif decisions != self._seen:
                self._seen, self._deadline, self._engines_killed = decisions, now + self._stall_s, False
            elif now >= self._deadline:
                self._intervene(now)

    def _intervene(self, now: float) -> None:
        if not self._engines_killed and kill_engines(_BIRTH_S):
            self._engines_killed = True
            self._deadline = now + _LAST_CHANCE_S
        else:
            signal.pthread_kill(self._main, signal.SIGALRM)
            self._deadline = now + self._stall_s
