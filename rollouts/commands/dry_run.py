"""`--dry-run`: the plan, its sizes, and what it takes of models. Writes nothing, starts nothing, sends nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from grading.forecast import Forecast, forecast, grader_calls, summarizer_calls
from grading.grader import GraderSettings
from grading.order import GradingOrder
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
    policy_calls = sum(group["calls_at_most"] for group in groups)
    grading = _grading(prepared, standing)
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
        "calls_at_most": policy_calls + grading["calls_at_most"],
        "policy_calls_at_most": policy_calls,
        "grading": grading,
    }


def _grading(prepared: Prepared, standing: Standing) -> dict[str, Any]:
    """What grading takes of models: episodes that are still to be played count at full length."""
    order = prepared.judging
    owed, caps = standing.side, {group.name: group.step_cap for group in prepared.groups}
    played = [caps[u.scenario, u.rubric, u.policy] for u in owed.summaries for _ in u.episodes]
    to_play = [caps[u.scenario, u.rubric, u.policy] for u in standing.owed for _ in u.episodes]
    gradings = owed.gradings + len(to_play) * (order.repeats if order else 0)
    return grading_plan(order, gradings, [*played[: owed.summary_episodes], *to_play])


def grading_plan(order: GradingOrder | None, gradings: int, decisions: Iterable[int]) -> dict[str, Any]:
    """Upper limits for so many gradings, and summaries of episodes of so many decisions each. Plain JSON values.

    `usd_at_most` is None where some price is not known. A reply that cannot be used costs more calls than these.
    """
    models = [] if order is None else _forecasts(order, gradings, decisions)
    known = [told.usd for told in models if told.usd is not None]
    return {
        "source": None if order is None else order.source,
        "models": [told.as_dict() for told in models],
        "calls_at_most": sum(told.calls for told in models),
        "tokens_at_most": sum(told.tokens for told in models),
        "usd_at_most": sum(known) if len(known) == len(models) else None,
    }


def _forecasts(order: GradingOrder, gradings: int, decisions: Iterable[int]) -> list[Forecast]:
    found: list[Forecast] = []
    if isinstance(order.grader, GraderSettings):
        calls = grader_calls(order.grader, gradings, repeat=1)
        found.append(forecast("grader", order.grader.model, calls, order.prices))
    if order.summarizer is not None:
        calls = summarizer_calls(order.summarizer, decisions)
        found.append(forecast("summarizer", order.summarizer.model, calls, order.prices))
    return found


def grading_plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """A grading plan in words: who grades, and a line a model that is called."""
    lines = [f"{told['who']} {told['model']}: {_calls(told)}" for told in plan["models"]]
    if plan["source"] in ("heuristic", "explicit"):
        lines.append(f"{plan['source']} grades: no model is called for them")
    if plan["models"]:
        lines.append("a reply that cannot be used costs a further call, or two")
    return lines or ["nothing is graded"]


def _calls(told: Mapping[str, Any]) -> str:
    cost = "cost unknown (no price for the model)" if told["usd"] is None else f"{told['usd']:,.4f} USD"
    return f"at most {told['calls']:,} calls, {told['tokens_in']:,} tokens in, {told['tokens_out']:,} out, {cost}"


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
    table = Table("scenario", "rubric", "policy", title=f"{told['run_id']}: what is owed", title_justify="left")
    for heading in ("units", "episodes", "decisions", "MB", "policy calls"):
        table.add_column(heading, justify="right")
    for row in (
        *told["groups"],
        {**told, "scenario": "all", "rubric": "", "policy": "", "calls_at_most": told["policy_calls_at_most"]},
    ):
        numbers = (row["units_owed"], row["episodes_owed"], row["decisions_at_most"])
        sizes = (f"{row['bytes_at_most'] / 1e6:,.1f}", f"{row['calls_at_most']:,}")
        table.add_row(row["scenario"], row["rubric"], row["policy"], *(f"{n:,}" for n in numbers), *sizes)
    console.print(table)
    exists = "exists; what it has is kept" if told["exists"] else "does not exist yet"
    for line in grading_plan_lines(told["grading"]):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    console.print(
        f"decisions, MB and calls are upper limits; {told['location']} {exists}", soft_wrap=True, highlight=False
    )
