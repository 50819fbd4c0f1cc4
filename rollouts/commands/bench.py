"""`rollouts bench`: how near the engine's own speed, and how far from the method that this project replaces."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from benchmarks.contest import Settings, contest
from benchmarks.ours import Means, Quiet
from benchmarks.spans import MODES, Cell, report
from rollouts.commands.console import wide_console
from rollouts.commands.pools import make_pool
from rollouts.errors import UsageError
from rollouts.signals import Signals

_COUNT = Parameter(allow_leading_hyphen=True)


def bench(
    *,
    rounds: Annotated[int, _COUNT] = 3,
    episodes: Annotated[int, _COUNT] = 32,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Measure four loops side by side on all cores: the bare engine, ours without and with frames, the old method.

    Parameters
    ----------
    rounds
        Turns that each loop gets in each scenario.
    episodes
        Episodes a core in each turn.
    as_json
        One JSON object on stdout.
    """
    for name, value, least in (("--rounds", rounds, 1), ("--episodes", episodes, 12)):
        if value < least:
            raise UsageError(f"{name} is {value}: must be {least} or above")
    settings = Settings(len(os.sched_getaffinity(0)), rounds, episodes)
    with Signals() as signals:
        means = Means(lambda prepared: make_pool(prepared, signals), signals, Quiet())
        told = report([_progress(cell) for cell in contest(settings, means)], settings.cores)
    told["episodes_per_unit"] = settings.episodes_per_unit
    if as_json:
        print(json.dumps(told))
    else:
        _print(told, wide_console())
    return 0


def _progress(cell: Cell) -> Cell:
    told = f"round {cell.round + 1}, {cell.scenario}, {cell.mode}: {cell.decisions_per_s:,.0f} decisions/s"
    print(told, file=sys.stderr, flush=True)
    return cell


def _print(told: dict[str, Any], console: Console) -> None:
    scenarios = list(told["modes"]["bare"]["by_scenario"])
    table = Table("loop", "decisions/s, pooled", *scenarios, "start-up s")
    for mode, what in MODES.items():
        measured = told["modes"][mode]
        rates = (measured["decisions_per_s"], *(measured["by_scenario"][scenario] for scenario in scenarios))
        table.add_row(what, *(f"{rate:,.0f}" for rate in rates), f"{measured['start_up_s']:.2f}")
    console.print(table)
    for name, ratio in told["ratios"].items():
        console.print(f"{name}: {ratio['value']:.2f} (goal: {ratio['goal']:g})", highlight=False)
    parts = ", ".join(f"{name} {us:,.0f}" for name, us in told["decision_us_of_a_core"].items())
    console.print(f"µs of a core a decision takes: {parts}", highlight=False, soft_wrap=True)
