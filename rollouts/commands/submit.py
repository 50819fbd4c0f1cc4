"""`rollouts submit`: the run that these flags describe, played by a cluster as one of its jobs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rollouts.commands.ending import say
from rollouts.commands.flags import GradingFlags, JobFlags, RunFlags
from rollouts.commands.job_files import LEFT_OUT, Choice, JobFiles, Reading, choose_files
from rollouts.commands.submission import Place, check_here, command_of, out_of
from rollouts.config import given_settings
from rollouts.errors import UsageError
from rollouts.importing import refuse_shadows
from rollouts.settings import convert

if TYPE_CHECKING:
    from actors.jobs import Jobs

_SWITCH = Parameter(negative=())
_ADDRESSES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
STOP_WAIT_S = 30
JOB_ENVIRONMENT = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)}
"""All that the job's environment says, for Ray stores and shows it. A run that is told to stop commits what is whole
and ends within some five seconds; without this Ray would kill it after three."""


@dataclass(frozen=True)
class Submission:
    """What would be sent, and where the run's folder will be."""

    address: str
    command: str
    files: JobFiles
    out: str

    def by_hand(self) -> str:
        """The same with Ray's own command, which leaves out what `.gitignore` names, whatever the run reads."""
        told = json.dumps({"excludes": list(LEFT_OUT), "env_vars": JOB_ENVIRONMENT})
        words = ("--address", self.address, "--working-dir", str(self.files.root), "--runtime-env-json", told)
        return f"{shlex.join(('ray', 'job', 'submit', *words))} -- {self.command}"


def submit(  # noqa: PLR0913  the flags of the command
    config: Path | None = None,
    /,
    *,
    flags: RunFlags | None = None,
    grading_flags: GradingFlags | None = None,
    job: JobFlags | None = None,
    new: Annotated[bool, _SWITCH] = False,
    dry_run: Annotated[bool, _SWITCH] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Send a run to a Ray cluster as a job, show its log, and exit with its exit status.

    Takes the flags of `rollouts run`, all checked here before anything is sent; --address is the URL of the cluster's
    dashboard. Ctrl-C ends the watching, not the job. No key goes along, for Ray stores and shows what a job is given:
    nodes have theirs in their environment, or in a file that --key-file names.

    Parameters
    ----------
    config
        A TOML file of settings, as for `rollouts run`. Its settings, and those of DOOM_ROLLOUTS_… variables, go along.
    new
        Play a repeat under the next free run id instead of going on.
    dry_run
        Check everything, show what would go along and the same as a command of Ray's own; send nothing.
    as_json
        The job prints JSON lines, launch first, done last; all else of its log goes to stderr.
    """
    found = _submission({**_given(flags), **_given(grading_flags)}, config, job or JobFlags(), new, as_json)
    if dry_run:
        print(f"would send {found.files}:", *found.files.sizes, sep="\n  ")
        print(f"the run will be in {found.out} of the nodes\nby hand: {found.by_hand()}")
        return 0
    jobs, name = _send(found)
    told = f"--address {shlex.quote(jobs.address)}"
    how = f"watch it: ray job logs --follow {name} {told}; stop it: rollouts stop {name} {told}"
    say(f"submitted {name} with {found.files}; the run will be in {found.out} of the nodes; {how}")
    if job is not None and job.detach:
        print(name)
        return 0
    return _followed(jobs, name, how, as_json)


def _given(flags: RunFlags | GradingFlags | None) -> dict[str, object]:
    return {} if flags is None else flags.given()


def _submission(flags: dict[str, object], config: Path | None, job: JobFlags, new: bool, as_json: bool) -> Submission:
    """Errors: `UsageError` for all that can be known to be wrong without the cluster."""
    given = given_settings(flags, config)
    address = str(convert(given.pop("address"), "text")) if "address" in given else _address_of_ray()
    place = _place(job)
    refuse_shadows([place.root])
    reading = Reading(place.root)
    with reading.noted():
        networks = check_here(given, place)
        command = command_of(given, place, new, as_json)
    files = choose_files(
        place.root, Choice(tuple(job.include or ()), tuple(job.exclude or ())), [*networks, *reading.files()]
    )
    return Submission(address, command, files, out_of(given))


def _place(job: JobFlags) -> Place:
    root = Path(os.path.abspath((job.working_dir or Path()).expanduser()))
    if not root.is_dir():
        raise UsageError(
            f'--working-dir "{job.working_dir}": {"is a file" if root.exists() else "there is no such folder"}'
        )
    for path in job.on_nodes or ():
        if not path.is_absolute():
            raise UsageError(f'--on-nodes "{path}": must be an absolute path, for it is one of the nodes')
    return Place(root, tuple(Path(os.path.abspath(path)) for path in job.on_nodes or ()))


def _address_of_ray() -> str:
    """Where Ray's own command would go."""
    for name in _ADDRESSES:
        if os.environ.get(name, "").startswith(("http://", "https://")):
            return os.environ[name]
    raise UsageError("--address is missing: give the URL of the cluster's dashboard, such as http://127.0.0.1:8265")


def _send(found: Submission) -> tuple[Jobs, str]:
    from actors.jobs import Job, Jobs  # noqa: PLC0415  imports Ray

    jobs = Jobs(found.address)
    with TemporaryDirectory(prefix="rollouts-submit-") as folder:
        package = Path(folder) / "working_dir.zip"
        found.files.write_zip(package)
        return jobs, jobs.submit(Job(f"exec {found.command}", package, JOB_ENVIRONMENT))


def _followed(jobs: Jobs, name: str, how: str, as_json: bool) -> int:
    """Show the log until the job has ended; its exit code."""
    try:
        end = jobs.follow(name, LogLines(as_json).write)
    except KeyboardInterrupt:
        say(f"{name} goes on without being watched; {how}")
        return 130
    if end.state != "SUCCEEDED" and end.exit_code is None:
        say(f"{name} {end.state}: {end.message}")
    return end.code


class LogLines:
    """A job's log as it comes, to stdout; of one that prints JSON lines only those, and the rest to stderr."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._begun = ""

    def write(self, text: str) -> None:
        if not self._as_json:
            print(text, end="", flush=True)
            return
        *lines, self._begun = f"{self._begun}{text}".split("\n")
        for line in lines:
            print(line, file=sys.stdout if line.startswith('{"event": ') else sys.stderr, flush=True)
