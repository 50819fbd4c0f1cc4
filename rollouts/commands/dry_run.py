"""`rollouts run --dry-run`: the plan and its sizes. Writes nothing, starts nothing."""

from __future__ import annotations

import json
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from rollouts.commands.console import wide_console
from rollouts.commands.playing import Standing
from rollouts.commands.preparing import Prepared


def show_plan(prepared: Prepared, standing: Standing, as_json: bool) -> int:
    """Print what a run with these settings would play; always succeeds."""
    told = plan_of(prepared, standing)
    if as_json:
        print(json.dumps({"event": "plan", **told}))
    else:
        _print(told, wide_console())
    return 0


def plan_of(prepared: Prepared, standing: Standing) -> dict[str, Any]:
    """The plan as plain JSON values. Sizes are of full-length episodes: a run stays below them."""
    groups = [_group(prepared, standing, index) for index in range(len(prepared.groups))]
    return {
        "run_id": prepared.run_id,
        "location": prepared.folder.describe(),
        "exists": standing.started,
        "groups": groups,
        "units": len(standing.plan) + len(standing.added),
        "units_owed": len(standing.owed),
        "episodes": standing.episodes,
        "episodes_owed": sum(group["episodes_owed"] for group in groups),
        "decisions_at_most": sum(group["decisions_at_most"] for group in groups),
        "bytes_at_most": sum(group["bytes_at_most"] for group in groups),
        "calls_at_most": sum(group["calls_at_most"] for group in groups),
        "cost": None,
    }


def _group(prepared: Prepared, standing: Standing, index: int) -> dict[str, Any]:
    group = prepared.groups[index]
    units = [unit for unit in standing.owed if (unit.scenario, unit.rubric, unit.policy) == group.name]
    episodes = sum(len(unit.episodes) for unit in units)
    decisions = episodes * group.step_cap
    return {
        "scenario": group.scenario,
        "rubric": group.rubric,
        "policy": group.policy,
        "units_owed": len(units),
        "episodes_owed": episodes,
        "decisions_at_most": decisions,
        "bytes_at_most": episodes * group.episode_bytes,
        "calls_at_most": decisions if group.costs_a_call else 0,
    }


def _print(told: dict[str, Any], console: Console) -> None:
    table = Table(
        title=f"{told['run_id']}: what is owed", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for heading in ("scenario", "rubric", "policy"):
        table.add_column(heading, overflow="fold")
    for heading in ("units", "episodes", "decisions", "MB", "model\ncalls"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in (*told["groups"], {**told, "scenario": "all", "rubric": "", "policy": ""}):
        numbers = (row["units_owed"], row["episodes_owed"], row["decisions_at_most"])
        sizes = (f"{row['bytes_at_most'] / 1e6:,.1f}", f"{row['calls_at_most']:,}")
        table.add_row(row["scenario"], row["rubric"], row["policy"], *(f"{n:,}" for n in numbers), *sizes)
    console.print(table)
    exists = "exists; what it has is kept" if told["exists"] else "does not exist yet"
    console.print(
        f"decisions, MB and calls are upper limits; {told['location']} {exists}", soft_wrap=True, highlight=False
    )
