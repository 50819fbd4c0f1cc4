"""`rollouts fake-endpoint`: an OpenAI-compatible endpoint without a model, to try a whole run without a key."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rollouts.calls.fake_endpoint import serve_forever
from rollouts.errors import UsageError
from rollouts.settings import Given, convert

_HYPHEN = Parameter(allow_leading_hyphen=True)
LARGEST_PORT = 65_535


def fake_endpoint(
    *,
    port: Annotated[str, _HYPHEN] = "8000",
    host: str = "127.0.0.1",
    delay_s: Annotated[str, _HYPHEN] = "0",
    log: Annotated[Path | None, _HYPHEN] = None,
) -> int:
    """Answer plausibly until interrupted: grades, summaries, the options of policies. No model is behind it.

    Prints one line to set the environment by. Point a run at it with --base-url, or with that line.

    Parameters
    ----------
    port
        Port to listen on; 0 takes a free one.
    host
        Address to listen on: this machine alone unless told otherwise.
    delay_s
        Seconds that every reply is held back.
    log
        File that gets one JSON line a request; - for stderr. Keys are never written.
    """
    number, delay = _port(port), _delay(delay_s)
    if log is None or str(log) == "-":
        serve_forever(number, host, delay, None if log is None else sys.stderr)
        return 0
    try:
        file = log.open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f'--log "{log}": {error.strerror or error}') from None
    with file:
        serve_forever(number, host, delay, file)
    return 0


def _port(text: str) -> int:
    value = convert(Given(text, "--port"), "int")
    if not isinstance(value, int) or not 0 <= value <= LARGEST_PORT:
        raise UsageError(f"--port is {value}: must be a whole number from 0 to {LARGEST_PORT}")
    return value


def _delay(text: str) -> float:
    value = convert(Given(text, "--delay-s"), "float")
    if not isinstance(value, float) or value < 0:
        raise UsageError(f"--delay-s is {value}: must be 0 seconds or more")
    return value
