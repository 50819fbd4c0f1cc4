"""`rollouts stop`: end a run that goes on on this machine, as Ctrl-C in its terminal would."""

from __future__ import annotations

import signal
import time

import psutil

from rollouts.errors import UsageError
from rollouts.evidence.status import Driver, read_status, status_lines
from rollouts.run.lease import Holder, read_holder
from rollouts.run.location import find_run
from rollouts.run.run_folder import RunFolder

PATIENCE_S = 60.0
LOOK_S = 0.05


def stop(run: str, /) -> int:
    """Ask the process that drives a run to stop: it commits what is whole, and the same command goes on later.

    Exits 0 once it has ended (or nobody drove it), 1 where it still lives after a minute: the second time it is told,
    it ends at once.

    Parameters
    ----------
    run
        The run's folder: a path, a URI, or its id alone under ./runs.
    """
    folder = find_run(run)
    folder.read_record()
    holder = read_holder(folder.storage, folder.path("lease.json"))
    if holder is None or not Driver.of(holder, time.time()).lives:
        print("nobody drives it")
    elif not _stopped(folder, holder):
        print(f"process {holder.pid} has been told to stop and still lives: the second time it ends at once")
        return 1
    print(*status_lines(read_status(folder)), sep="\n")
    return 0


def _stopped(folder: RunFolder, holder: Holder) -> bool:
    """Whether the process ended in time. Errors: `UsageError` where it cannot be told."""
    if not holder.is_here():
        raise UsageError(
            f"{folder.describe()} is driven by process {holder.pid} on {holder.host}, which cannot be told from here: "
            "stop it there, or its job by `ray job stop`"
        )
    try:
        psutil.Process(holder.pid).send_signal(signal.SIGTERM)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        raise UsageError(f"process {holder.pid}, which drives {folder.describe()}, is not yours to stop") from None
    over = time.monotonic() + PATIENCE_S
    while holder.is_alive_here() and time.monotonic() < over:
        time.sleep(LOOK_S)
    return not holder.is_alive_here()
