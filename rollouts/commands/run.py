"""`rollouts run`: plays what is owed of a run, from nothing or from where it was stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import psutil
from cyclopts import Parameter
from rich.console import Console

from rollouts.commands.dry_run import show_plan
from rollouts.commands.ending import (
    Ending,
    conclude,
    current_manifest,
    done,
    last_words,
    say,
    write_manifest,
)
from rollouts.commands.flags import RunFlags
from rollouts.commands.playing import Standing, launch_of, look, play, start
from rollouts.commands.pools import check_place, make_pool
from rollouts.commands.preparing import Prepared, prepare
from rollouts.commits import Heart
from rollouts.config import load_config
from rollouts.doom.engine_home import is_engine, unlink_shared_memory
from rollouts.errors import RolloutsError
from rollouts.evidence.table import print_results
from rollouts.progress import Reporter, make_reporter
from rollouts.run.lease import HEARTBEAT_S, Lease
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

_SWITCH = Parameter(negative=())


def run(
    config: Path | None = None,
    /,
    *,
    flags: RunFlags | None = None,
    new: Annotated[bool, _SWITCH] = False,
    dry_run: Annotated[bool, _SWITCH] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Play what is owed of a run; the same command again goes on where it was.

    Parameters
    ----------
    config
        A TOML file of settings. Flags win over it, it wins over DOOM_ROLLOUTS_… variables.
    new
        Play a repeat under the next free run id instead of going on.
    dry_run
        Show the plan and its sizes, and write nothing.
    as_json
        JSON lines on stdout: launch first, done last.
    """
    settings = load_config((flags or RunFlags()).given(), config)
    storage = open_storage(settings.out)
    storage.check_writable()
    prepared = prepare(settings, storage, new)
    standing = look(prepared)
    if dry_run:
        return show_plan(prepared, standing, as_json)
    reporter = make_reporter(as_json, sys.stdout, sys.stderr)
    try:
        ending = _play(prepared, reporter) if standing.owed else _finished(prepared, standing, reporter)
        reporter.done(done(prepared.folder, ending))
    finally:
        reporter.close()
    if ending.manifest is not None and not as_json:
        print_results(ending.manifest, Console())
    for line in last_words(ending, prepared.again):
        say(line)
    return ending.exit_code


def _finished(prepared: Prepared, standing: Standing, reporter: Reporter) -> Ending:
    """Nothing is owed: say so, start nothing, and see to what a driver that was killed at the very end left undone."""
    reporter.launch(launch_of(prepared, standing, actors=0), standing.counts)
    folder, manifest = prepared.folder, current_manifest(prepared.folder)
    if manifest is None:
        manifest = _tidied(prepared, None)
    elif standing.survey.temporary or standing.survey.orphans or not folder.is_tidy():
        with suppress(RolloutsError):  # another driver may be at it, or the folder be read-only by now
            _tidied(prepared, manifest)
    return Ending("complete", owed=0, manifest=manifest)


def _tidied(prepared: Prepared, manifest: dict[str, Any] | None) -> dict[str, Any]:
    folder = prepared.folder
    lease = folder.acquire()
    with _held(prepared, lease):
        folder.recover(lease)
        manifest = manifest or write_manifest(folder, lease, "complete", None)
        folder.finish(lease)
    return manifest


def _play(prepared: Prepared, reporter: Reporter) -> Ending:
    with Signals(lambda _: _last_moment(prepared), spares=is_engine) as signals:
        pool = make_pool(prepared, signals)
        try:
            lease = prepared.folder.acquire()
            with _held(prepared, lease):
                check_place(prepared)
                ready = start(prepared, lease)
                reporter.launch(launch_of(prepared, ready.standing, pool.slots), ready.standing.counts)
                return conclude(ready, play(ready, pool, reporter, signals))
        finally:
            pool.close()


def _last_moment(prepared: Prepared) -> None:
    """Before everything of ours is killed: how to go on; and engines that are starting must not leave their memory."""
    say(f"interrupted; to go on, {prepared.again}")
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        unlink_shared_memory(process.pid)


@contextmanager
def _held(prepared: Prepared, lease: Lease) -> Iterator[None]:
    """The lease beats inside, however long it takes to survey a large run or to write its evidence. Whatever is raised,
    the next driver need not wait for the lease to run out."""
    try:
        with Heart(lease.beat, HEARTBEAT_S):
            yield
    except BaseException:
        with suppress(RolloutsError):
            prepared.folder.finish(lease)
        raise
