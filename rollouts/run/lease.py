"""Who may commit to a run folder: one driver at a time, by `lease.json`.

A dead holder on the same machine is replaced at once (boot, process id and the process's start time say so), any other
one after 60 s without a heartbeat. Each holder has a higher epoch and a token of its own, and reads the file again
before each commit: who lost the lease commits nothing more.

On a local file system a lock makes "read the lease, then commit" one step. An object store, and an NFS without locks,
cannot promise that: a driver that is stopped exactly between the two, for longer than 60 s, may finish one commit that
it had begun. The bytes and hash that each commit names then show it: the unit counts as torn and is played again.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from rollouts.errors import LeaseError
from rollouts.store.storage import Storage

HEARTBEAT_S = 5.0
EXPIRY_S = 60.0


@dataclass(frozen=True, slots=True)
class Holder:
    """What `lease.json` says. `boot` names the kernel's boot and the process namespace, within which `pid` means
    something; `process_started` and `heartbeat` are seconds since 1970. `released`: the holder is through."""

    epoch: int
    token: str
    host: str
    boot: str
    pid: int
    process_started: float
    heartbeat: float
    released: bool = False

    def is_here(self) -> bool:
        return (self.host, self.boot) == (socket.gethostname(), _boot())

    def is_alive_here(self) -> bool:
        """Does the very process still run (another one may have got its id since)?"""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.process_started) < 1.0
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def lives(self, now: float) -> bool:
        """Does it still drive the run, as far as can be seen from here? On this machine its process says so, elsewhere
        a heartbeat of the last 60 s."""
        there = self.is_alive_here() if self.is_here() else abs(now - self.heartbeat) < EXPIRY_S
        return there and not self.released


class Lease:
    """A lease that is held; threads may share it. `beat` is to be called often: it writes every 5 s at most."""

    def __init__(self, storage: Storage, folder: str, holder: Holder, clock: Callable[[], float] = time.time) -> None:
        self._storage = storage
        self._folder = folder
        self._path = f"{folder}/lease.json"
        self._holder = holder
        self._clock = clock
        self._attempts = itertools.count()
        self._writing = threading.Lock()

    @property
    def epoch(self) -> int:
        return self._holder.epoch

    @property
    def attempt_prefix(self) -> str:
        return f"e{self.epoch}-{self._holder.token}-"

    def next_attempt(self) -> str:
        """A name for one attempt at a unit, used by no other attempt of this or any other driver."""
        return f"{self.attempt_prefix}{next(self._attempts)}"

    def check(self) -> None:
        """Errors: `LeaseError` where the lease on file is not this one any more."""
        found = read_holder(self._storage, self._path)
        if found is None or found.token != self._holder.token:
            by = f"process {found.pid} on {found.host} has it" if found else "its file is gone or damaged"
            raise LeaseError(f"lost the lease of {self._storage.describe(self._folder)}: {by}")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Commit inside: the lease has just been read and, on a local file system, cannot be taken meanwhile."""
        with self._storage.exclusive(self._folder):
            self.check()
            yield

    def beat(self) -> None:
        """Say that this driver lives. Errors: `LeaseError`, `StorageError`."""
        with self._writing:
            if not self._holder.released and self._clock() - self._holder.heartbeat >= HEARTBEAT_S:
                self._write(replace(self._holder, heartbeat=self._clock()))

    def release(self) -> None:
        """Let the next driver in at once. The file stays: epochs only ever grow."""
        with self._writing:
            self._write(replace(self._holder, heartbeat=self._clock(), released=True))

    def _write(self, holder: Holder) -> None:
        with self.held():
            write_holder(self._storage, self._path, holder)
        self._holder = holder


def acquire_lease(
    storage: Storage,
    folder: str,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> Lease:
    """Become the one driver of `folder`. Errors: `LeaseError` naming the holder, `StorageError`.

    The heartbeat of another machine is also watched for two beats, since its clock may be wrong.
    """
    path = f"{folder}/lease.json"
    seen = read_holder(storage, path)
    if not _is_free(seen):
        _refuse_a_live_one(storage, folder, seen, clock)
        pause(2 * HEARTBEAT_S)
    with storage.exclusive(folder):
        found = read_holder(storage, path)
        if found != seen and not _is_free(found):
            raise LeaseError(_held(storage, folder, found))
        holder = _new_holder(1 + (found.epoch if found else 0), clock())
        write_holder(storage, path, holder)
    lease = Lease(storage, folder, holder, clock)
    lease.check()
    return lease


def read_holder(storage: Storage, path: str) -> Holder | None:
    """None where there is no lease, or none that can be read."""
    try:
        return Holder(**storage.read_json(path))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_holder(storage: Storage, path: str, holder: Holder) -> None:
    storage.write_bytes(path, json.dumps(asdict(holder), indent=1).encode())


def _is_free(holder: Holder | None) -> bool:
    return holder is None or holder.released or (holder.is_here() and not holder.is_alive_here())


def _refuse_a_live_one(storage: Storage, folder: str, holder: Holder | None, clock: Callable[[], float]) -> None:
    if holder is not None and abs(clock() - holder.heartbeat) < EXPIRY_S:
        raise LeaseError(_held(storage, folder, holder))


def _held(storage: Storage, folder: str, holder: Holder | None) -> str:
    who = f"process {holder.pid} on {holder.host}" if holder else "another process"
    return (
        f"{storage.describe(folder)} is in use by {who}: wait for it or stop it"
        f" (a lost driver's lease is free {EXPIRY_S:.0f} s after its last heartbeat)"
    )


def _new_holder(epoch: int, now: float) -> Holder:
    me = psutil.Process()
    return Holder(epoch, secrets.token_hex(4), socket.gethostname(), _boot(), me.pid, me.create_time(), now)


def _boot() -> str:
    """The kernel's boot and the process namespace: in another container, ids name other processes."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{psutil.boot_time():.0f}"
