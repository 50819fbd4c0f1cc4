"""Where the console command begins: before the imports, so that a Ctrl-C among them ends it without a traceback."""

from __future__ import annotations

import signal


def main() -> int:
    """The exit code of the command line. A Ctrl-C before there is anything to put away kills the process by itself."""
    at_first = signal.getsignal(signal.SIGINT)
    if at_first is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rollouts import cli  # noqa: PLC0415  half a second of imports

    signal.signal(signal.SIGINT, at_first)
    return cli.main()
