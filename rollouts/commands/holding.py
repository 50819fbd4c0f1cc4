"""A run's lease, held while a command works; and the last moment before a hard stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from rollouts.commands.ending import say
from rollouts.commits import Heart
from rollouts.doom.engine_home import unlink_shared_memory
from rollouts.errors import RolloutsError
from rollouts.run.lease import HEARTBEAT_S, Lease
from rollouts.run.run_folder import RunFolder


@contextmanager
def held(folder: RunFolder, lease: Lease) -> Iterator[None]:
    """The lease beats inside, however long it takes to survey a large run or to write its evidence. Whatever is raised,
    the next driver need not wait for the lease to run out."""
    try:
        with Heart(lease.beat, HEARTBEAT_S):
            yield
    except BaseException:
        with suppress(RolloutsError):
            folder.finish(lease)
        raise


def last_moment(again: str) -> None:
    """Before everything of ours is killed: how to go on; and engines that are starting must not leave their memory."""
    say(f"interrupted; to go on, {again}")
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        unlink_shared_memory(process.pid)
