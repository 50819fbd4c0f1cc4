"""The console that tables go to: as wide as the terminal, and wide enough for a table where there is none."""

from __future__ import annotations

from rich.console import Console

from rollouts.evidence.table import WIDTH_WITHOUT_TERMINAL


def wide_console() -> Console:
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_WITHOUT_TERMINAL)
    return console
