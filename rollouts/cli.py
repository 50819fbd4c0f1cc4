"""The console command: which commands there are, and how every way to fail becomes one line and an exit code.

0 all done; 1 finished with failed parts, or stopped; 2 wrong use; 128+n on a signal.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import metadata
from itertools import takewhile
from pathlib import Path

from cyclopts import App, CycloptsError, UnknownCommandError, UnknownOptionError

from rollouts.errors import RolloutsError, UsageError
from rollouts.importing import OUR_ROOT, refuse_shadows
from rollouts.settings import one_line, unknown

WRONG_USE = 2
BY_SIGNAL = 128
INTERRUPTED = BY_SIGNAL + 2
BROKEN_PIPE = BY_SIGNAL + 13


def _version() -> str:
    try:
        return metadata.version("doom-rollouts")
    except metadata.PackageNotFoundError:
        return "not installed (a plain checkout)"


app = App(
    name="rollouts",
    help="On-policy Doom rollouts on Ray: every decision a Parquet row.",
    version=_version,
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
COMMANDS = {
    "run": "Play what is owed of a run; the same command again goes on where it was.",
    "submit": "Let a Ray cluster play a run, and follow it.",
    "status": "How far is a run? From its folder alone.",
    "stop": "End a run of this machine, or a job of a cluster: what is whole is kept.",
    "verify": "Recompute every number and hash of a run from its shards.",
    "grade": "Grade a run that was played; only what is owed.",
    "compare": "Compare what policies played on the same seeds, with intervals.",
    "export": "Write the rows of runs in the forms that trainers read.",
    "report": "Make a page of runs: results, plots, evidence, and a player of their episodes.",
    "bench": "Measure our speed beside the bare engine's and the old method's.",
    "doctor": "Is this machine fit for a run?",
    "scenarios": "List what can be played.",
    "fake-endpoint": "An OpenAI-compatible endpoint without a model, to try a run without a key.",
}
for _name, _help in COMMANDS.items():
    _function = _name.replace("-", "_")
    app.command(f"rollouts.commands.{_function}:{_function}", name=_name, help=_help)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What a user can do wrong ends in one line on stderr.

    Without `arguments` it is all that this process does: a further Ctrl-C then does not disturb its last moments.
    """
    if arguments is None:
        warnings.formatwarning = lambda message, *_, **__: f"rollouts: {one_line(str(message))}\n"
    code = _run(arguments)
    if arguments is None and code > BY_SIGNAL:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        refuse_shadows(takewhile(lambda folder: Path(folder).resolve() != OUR_ROOT, tuple(sys.path)))
        if (here := os.getcwd()) not in sys.path:
            sys.path.append(here)  # a user's own module:Class lies in the current folder
        return int(app(tokens) or 0)
    except CycloptsError as error:
        return _fail(_told(error, tokens), WRONG_USE)
    except UsageError as error:
        return _fail(str(error), WRONG_USE)
    except RolloutsError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _told(error: CycloptsError, tokens: Sequence[str]) -> str:
    if isinstance(error, UnknownCommandError):
        return str(unknown("command", tokens[0], COMMANDS))
    told = one_line(str(error))
    if isinstance(error, UnknownOptionError):
        told += f" All flags: rollouts {tokens[0] if tokens[0] in app else ''} --help".replace("  ", " ")
    return told


def _fail(message: str, code: int) -> int:
    print(f"rollouts: {one_line(message)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
