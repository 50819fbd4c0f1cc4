"""SIGINT and SIGTERM: the first asks to stop, the second stops at once, and so does a first that is not obeyed in time.

    with Signals(before_exit=print_how_to_resume) as signals:
        with signals.obeyed_at_once():
            ray.init(...)
        signals.install()              # ray.init replaces the SIGTERM handler
        drive(..., signals=signals)    # sees signals.received

A watching thread reads signal numbers from a pipe that the interpreter's C code writes to, so that a second signal
works even while the main thread is stuck in a C call (one that lets threads run, as those of the engine and Ray do).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil

STOPPING = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 4.0


class Interrupted(BaseException):
    """The first signal, raised inside `interruptible`. No Exception: nobody may take it for a policy's error."""


class Signals:
    """Handles both signals while it is entered; for the main thread. `before_exit(signal)` runs before a hard exit,
    which kills the children but those that `spares` names (they end with this process by themselves).

    Unless it is left within `grace_s` of the first signal, the process ends with 128 + signal.
    """

    def __init__(
        self,
        before_exit: Callable[[int], None] | None = None,
        grace_s: float = GRACE_S,
        spares: Callable[[psutil.Process], bool] = lambda _process: False,
    ) -> None:
        self.received: int | None = None
        self._before_exit = before_exit
        self._grace_s = grace_s
        self._spares = spares
        self._raises = False
        self._at_once = False
        self._left = threading.Event()
        self._exiting = threading.Lock()
        self._undo: Callable[[], None] = lambda: None

    def __enter__(self) -> Signals:
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        handlers = {number: signal.getsignal(number) for number in STOPPING}
        wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

        def undo() -> None:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            os.close(write_end)

        self._undo = undo
        threading.Thread(target=self._watch, args=(read_end,), name="signals", daemon=True).start()
        self.install()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.set()
        self._undo()

    def install(self) -> None:
        """(Again) become the handler of both signals."""
        for number in STOPPING:
            signal.signal(number, self._handle)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside, the first signal raises Interrupted, at once where it has come already."""
        self._raises = True
        try:
            if self.received is not None:
                raise Interrupted
            yield
        finally:
            self._raises = False

    @contextmanager
    def obeyed_at_once(self) -> Iterator[None]:
        """Inside, nothing is under way that had to be put away: the first signal ends the process."""
        self._at_once = True
        try:
            if self.received is not None:
                self._exit(self.received)
            yield
        finally:
            self._at_once = False

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        first = self.received is None
        self.received = self.received or number
        if first and self._raises:
            raise Interrupted

    def _watch(self, read_end: int) -> None:
        """Runs until the writing end is closed."""
        seen = 0
        while numbers := os.read(read_end, 64):
            for number in numbers:
                if number in STOPPING:
                    seen += 1
                    if seen > 1 or self._at_once:
                        self._exit(number)
                    threading.Thread(target=self._lose_patience, args=(number,), daemon=True).start()
        os.close(read_end)

    def _lose_patience(self, number: int) -> None:
        if not self._left.wait(self._grace_s):
            self._exit(number)

    def _exit(self, number: int) -> None:
        """A Ray of our own goes too: some of it would take its time to notice. Only the first caller gets on."""
        self._exiting.acquire()
        with suppress(Exception):
            if self._before_exit is not None:
                self._before_exit(number)
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                if not self._spares(child):
                    _kill_with_children(child)
        os._exit(128 + number)


def _kill_with_children(process: psutil.Process) -> None:
    """Each is stopped before its children are listed: none is started meanwhile that nobody then knows of."""
    with suppress(psutil.Error):
        process.suspend()
        for child in process.children():
            _kill_with_children(child)
        process.kill()
