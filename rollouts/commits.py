"""The driver's way to the run folder: commits in a few threads of their own, and the lease's heartbeat.

An object store takes its time for each request; the loop that feeds the workers does not wait for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rollouts.errors import LeaseError, StorageError, TryVoid
from rollouts.pools.pool import Report
from rollouts.records import SideReport, UnitReport
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder


class Commits(Protocol):
    """Where whole units go. `promote` and `heartbeat` are called from several threads."""

    def next_attempt(self) -> str:
        """A name that no other attempt of this or any other driver has."""
        ...

    def promote(self, report: Report) -> object:
        """Make a staged unit part of the run; nothing where it is already.

        Errors: TryVoid (play the unit again), StorageError, LeaseError.
        """
        ...

    def heartbeat(self) -> object:
        """Show that the lease's holder lives. Errors: StorageError, LeaseError."""
        ...


@dataclass(frozen=True)
class RunCommits:
    """Commits to a run folder under a lease."""

    folder: RunFolder
    lease: Lease

    def next_attempt(self) -> str:
        return self.lease.next_attempt()

    def promote(self, report: Report) -> bool:
        """And right after it what was judged where the unit was played; if that cannot count, it is owed."""
        assert isinstance(report, UnitReport)
        promoted = self.folder.promote(self.lease, report)
        if promoted and report.side is not None:
            with suppress(TryVoid):
                SideFolder(self.folder).promote(self.lease, report.side)
        return promoted

    def heartbeat(self) -> None:
        self.lease.beat()


@dataclass(frozen=True)
class SideCommits:
    """Commits to the side tables of a run, under the run's lease."""

    side: SideFolder
    lease: Lease

    def next_attempt(self) -> str:
        return self.lease.next_attempt()

    def promote(self, report: Report) -> bool:
        assert isinstance(report, SideReport)
        return self.side.promote(self.lease, report)

    def heartbeat(self) -> None:
        self.lease.beat()


@dataclass(frozen=True, slots=True)
class Commit:
    """One that is through: `refused` says why the unit has to be played again, `error` why the run has to stop."""

    report: Report
    refused: str | None = None
    error: StorageError | LeaseError | None = None


class CommitQueue:
    """Commits under way. Bounded by its user: `full` says when to wait."""

    def __init__(self, promote: Callable[[Report], object], threads: int, most: int) -> None:
        self._promote = promote
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="commit")
        self._most = most
        self._under_way = 0
        self._done: queue.SimpleQueue[Future[Commit]] = queue.SimpleQueue()

    def __len__(self) -> int:
        return self._under_way

    @property
    def full(self) -> bool:
        return self._under_way >= self._most

    def add(self, report: Report) -> None:
        self._under_way += 1
        self._threads.submit(self._commit, report).add_done_callback(self._done.put)

    def through(self, timeout_s: float) -> list[Commit]:
        """Those that are through since the last call; waits for the first of them for at most `timeout_s`."""
        found: list[Commit] = []
        with suppress(queue.Empty):
            if self._under_way and timeout_s:
                found.append(self._done.get(timeout=timeout_s).result())
            while True:
                found.append(self._done.get_nowait().result())
        self._under_way -= len(found)
        return found

    def close(self) -> None:
        """Begin no more; what is under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _commit(self, report: Report) -> Commit:
        try:
            self._promote(report)
        except TryVoid as error:
            return Commit(report, refused=str(error))
        except FileNotFoundError as error:  # what was staged went away between the look and the move
            return Commit(report, refused=f"staged files are gone: {error}")
        except (StorageError, LeaseError) as error:
            return Commit(report, error=error)
        return Commit(report)


class Heart:
    """Beats in a thread of its own, so that a long call in the main thread does not look like death."""

    def __init__(self, beat: Callable[[], object], every_s: float) -> None:
        self._beat = beat
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.error: StorageError | LeaseError | None = None

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()

    def _run(self) -> None:
        while self.error is None and not self._over.wait(self._every_s):
            try:
                self._beat()
            except (StorageError, LeaseError) as error:
                self.error = error
