"""`rollouts run`: plays what is owed of a run, from nothing or from where it was stopped."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

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
from rollouts.commands.holding import held, last_moment
from rollouts.commands.judging import check_endpoint
from rollouts.commands.judging import ready as side_ready
from rollouts.commands.playing import Standing, judging_of, launch_of, limits_so_far, look, play, start
from rollouts.commands.policy_check import check_models
from rollouts.commands.pools import Place, check_place
from rollouts.commands.preparing import Prepared, prepare
from rollouts.commands.working_dir import check_out_lasts, check_workers_see_ours
from rollouts.config import load_configs
from rollouts.doom.engine_home import is_engine
from rollouts.errors import RolloutsError
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
    check_workers_see_ours(settings)
    check_out_lasts(settings)
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
    """Nothing is owed: say so, start nothing, and see to what a driver that was killed at the very end left undone."""
    reporter.launch(launch_of(prepared, standing, actors=0), standing.counts)
    folder, asked = prepared.folder, Asked.of(prepared.judging, prepared.grading)
    manifest = None if standing.unfit else current_manifest(folder, asked.weights)
    if manifest is None:
        manifest = _tidied(prepared, asked, None, reporter)
    elif standing.survey.temporary or standing.survey.orphans or not folder.is_tidy():
        with suppress(RolloutsError):  # another driver may be at it, or the folder be read-only by now
            _tidied(prepared, asked, manifest, reporter)
    return Ending("complete", owed=0, manifest=manifest, asked=asked)


def _tidied(prepared: Prepared, asked: Asked, manifest: dict[str, Any] | None, reporter: Reporter) -> dict[str, Any]:
    folder = prepared.folder
    lease = folder.acquire()
    with held(folder, lease):
        for words in side_ready(judging_of(prepared), folder, lease, folder.recover(lease)):
            reporter.note(words)
        manifest = manifest or write_manifest(folder, lease, "complete", None, asked.weights)
        folder.finish(lease)
    return manifest


def _play(prepared: Prepared, standing: Standing, reporter: Reporter) -> Ending:
    config = prepared.config
    check_endpoint(prepared.judging, standing.side, plays=bool(standing.owed))
    checked = check_models(prepared, limits_so_far(prepared, standing)) if standing.owed else ()
    with (
        Signals(lambda _: last_moment(prepared.again), spares=is_engine) as signals,
        Place(config.pool, config.address, config.metrics_port) as place,
    ):
        pool = place.rollout_pool(prepared, signals) if standing.owed else None
        try:
            lease = prepared.folder.acquire()
            with held(prepared.folder, lease):
                if pool is not None:
                    check_place(prepared)
                ready = start(prepared, lease)
                slots = 0 if pool is None else pool.slots
                reporter.launch(launch_of(prepared, ready.standing, slots), ready.standing.counts)
                watched = (f"metrics: {place.metrics_url}",) if place.metrics_url else ()
                for words in (*watched, *(one.remark for one in checked if one.remark), *ready.words):
                    reporter.note(words)
                played = play(ready, pool, reporter, signals, place, checked)
                place.close()
                return conclude(ready, played)
        finally:
            if pool is not None:
                pool.close()
