"""Units that are handed over while a run goes on: one thread adds, another takes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rollouts.records import Unit


class Arrivals:
    """Add units until `end`; `on_change` is called in the adding thread, to wake whoever waits for them."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._waiting: list[Unit] = []
        self._ended = False

    def add(self, unit: Unit) -> None:
        """Never blocks. Nothing may be added after `end`."""
        with self._lock:
            assert not self._ended, f"unit {unit.number} arrives after the end"
            self._waiting.append(unit)
        self._on_change()

    def end(self) -> None:
        """No more will come. Idempotent."""
        with self._lock:
            self._ended = True
        self._on_change()

    def take(self) -> list[Unit]:
        """Those that have come since the last call."""
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    @property
    def exhausted(self) -> bool:
        """All that ever came is taken, and no more will."""
        with self._lock:
            return self._ended and not self._waiting


NOTHING_MORE = Arrivals()
NOTHING_MORE.end()
