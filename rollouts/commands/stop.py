"""`rollouts stop`: end a run of this machine, or a job of a cluster, as Ctrl-C in its terminal would."""

from __future__ import annotations

import signal
import time
from typing import Annotated

import psutil
from cyclopts import Parameter

from rollouts.errors import UsageError
from rollouts.evidence.status import read_status, status_lines
from rollouts.run.lease import Holder, read_holder
from rollouts.run.location import find_run
from rollouts.run.run_folder import RunFolder

PATIENCE_S = 60.0
LOOK_S = 0.05
LAST_LINES = 3


def stop(run: str, /, *, address: Annotated[str | None, Parameter(show_default=False)] = None) -> int:
    """Ask the process that drives a run to stop: it commits what is whole, and the same command goes on later.

    Exits 0 once it has ended (or nobody drove it), 1 where it still lives after a minute: the second time it is told,
    it ends at once.

    Parameters
    ----------
    run
        The run's folder: a path, a URI, or its id alone under ./runs. With --address: the id of a job.
    address
        URL of the dashboard of the cluster whose job it is, as `rollouts submit` was given it.
    """
    return _stop_run(run) if address is None else _stop_job(run, address)


def _stop_job(job: str, address: str) -> int:
    from actors.jobs import Jobs  # noqa: PLC0415  imports Ray

    jobs = Jobs(address)
    before = jobs.end(job)
    if before is not None:
        print(f"{job} has ended already: {before.state}")
        return 0
    jobs.stop(job)
    end = jobs.wait(job, PATIENCE_S)
    print(*jobs.log(job).splitlines()[-LAST_LINES:], f"{job}: {end.state}", sep="\n")
    return 0


def _stop_run(run: str) -> int:
    folder = find_run(run)
    folder.read_record()
    holder = read_holder(folder.storage, folder.path("lease.json"))
    if holder is None or not holder.lives(time.time()):
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
            "stop it there, or its job by rollouts stop JOB --address URL"
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
