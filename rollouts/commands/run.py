"""`rollouts run`: plays what is owed of a run, from nothing or from where it was stopped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from rollouts.commands.dry_run import show_plan
from rollouts.commands.ending import (
    Asked,
    Ending,
    conclude,
    current_manifest,
    done,
    last_words,
    say,
    write_manifest,
)
from rollouts.commands.flags import GradingFlags, RunFlags
from rollouts.commands.judging import check_endpoint, released_on_error
from rollouts.commands.playing import Standing, launch_of, look, play, start
from rollouts.commands.pools import Place, check_place
from rollouts.commands.preparing import Prepared, prepare
from rollouts.config import load_configs
from rollouts.evidence.table import print_results
from rollouts.progress import Reporter, make_reporter
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

_SWITCH = Parameter(negative=())


def run(  # noqa: PLR0913  the flags of the command
    config: Path | None = None,
    /,
    *,
    flags: RunFlags | None = None,
    grading_flags: GradingFlags | None = None,
    new: Annotated[bool, _SWITCH] = False,
    dry_run: Annotated[bool, _SWITCH] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Play and grade what is owed of a run; the same command again goes on where it was.

    Episodes are graded while others are played: without a model by default, or by a model on any endpoint that speaks
    OpenAI's language (the key is read from OPENAI_API_KEY).

    Parameters
    ----------
    config
        A TOML file of settings. Flags win over it, it wins over DOOM_ROLLOUTS_… variables.
    new
        Play a repeat under the next free run id instead of going on.
    dry_run
        Show the plan, its sizes, and the calls, tokens and cost that grading takes; write and send nothing.
    as_json
        JSON lines on stdout: launch first, done last.
    """
    given = {**(flags or RunFlags()).given(), **(grading_flags or GradingFlags()).given()}
    settings, grading = load_configs(given, config)
    storage = open_storage(settings.out)
    storage.check_writable()
    prepared = prepare(settings, storage, new, grading, may_call=not dry_run)
    standing = look(prepared)
    if dry_run:
        return show_plan(prepared, standing, as_json)
    reporter = make_reporter(as_json, sys.stdout, sys.stderr)
    try:
        ending = (
            _play(prepared, standing, reporter) if standing.anything_owed else _finished(prepared, standing, reporter)
        )
        reporter.done(done(prepared.folder, ending))
    finally:
        reporter.close()
    if ending.manifest is not None and not as_json:
        print_results(ending.manifest, Console())
    for line in last_words(ending, prepared.again):
        say(line)
    return ending.exit_code


def _finished(prepared: Prepared, standing: Standing, reporter: Reporter) -> Ending:
    """Nothing is owed: say so, start nothing, and see to the evidence if it was never written."""
    reporter.launch(launch_of(prepared, standing, actors=0), standing.counts)
    asked = Asked.of(prepared.judging, prepared.grading)
    manifest = current_manifest(prepared.folder, asked.weights)
    if manifest is None:
        lease = prepared.folder.acquire()
        manifest = write_manifest(prepared.folder, "complete", None, asked.weights)
        prepared.folder.finish(lease)
    return Ending("complete", owed=0, manifest=manifest, asked=asked)


def _play(prepared: Prepared, standing: Standing, reporter: Reporter) -> Ending:
    config = prepared.config
    check_endpoint(prepared.judging, standing.side, plays=bool(standing.owed))
    with (
        Signals(before_exit=lambda _: say(f"interrupted; to go on, {prepared.again}")) as signals,
        Place(config.pool, config.address) as place,
    ):
        pool = place.rollout_pool(prepared, signals) if standing.owed else None
        try:
            lease = prepared.folder.acquire()
            with released_on_error(prepared.folder, lease):
                if pool is not None:
                    check_place(prepared)
                ready = start(prepared, lease)
                slots = 0 if pool is None else pool.slots
                reporter.launch(launch_of(prepared, ready.standing, slots), ready.standing.counts)
                played = play(ready, pool, reporter, signals, place)
        finally:
            if pool is not None:
                pool.close()
        place.close()
        return conclude(ready, played)
