"""`--dry-run`: the plan, its sizes, and what it takes of models. Writes nothing, starts nothing, sends nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from grading.forecast import (
    Asked,
    Forecast,
    Takes,
    batches_of,
    forecast,
    grader_calls,
    gradings_of,
    summarizer_calls,
)
from grading.grader import GraderSettings, GradingTask
from grading.order import GradingOrder
from grading.owed import Owed, Wanted, wanted_of
from grading.played import RunReader
from grading.said import Said
from grading.unit_task import UnitTask
from rollouts.commands.console import wide_console
from rollouts.commands.playing import Standing
from rollouts.commands.policy_forecast import policy_forecasts
from rollouts.commands.preparing import Prepared
from rollouts.naming import counted
from rollouts.records import Unit
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_survey import survey_sides


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
    calls = {group.name: told["calls_at_most"] for group, told in zip(prepared.groups, groups, strict=True)}
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
        "policies": [told.as_dict() for told in policy_forecasts(prepared, calls)],
        "grading": grading,
    }


def _grading(prepared: Prepared, standing: Standing) -> dict[str, Any]:
    """What grading takes of models: what was played by its very questions, the rest at full length."""
    order = prepared.judging
    if order is None:
        return grading_plan(None, NO_WORK)
    caps = {group.name: group.step_cap for group in prepared.groups}
    to_play = [caps[u.scenario, u.rubric, u.policy] for u in standing.owed for _ in u.episodes]
    return grading_plan(order, played_work(order, prepared.folder, standing.side), full_work(order, to_play))


@dataclass(frozen=True)
class Work:
    """What would be asked, of graders and of summarizers."""

    grades: Iterable[Asked] = ()
    summaries: Iterable[Asked] = ()


NO_WORK = Work()


def full_work(order: GradingOrder, decisions: Sequence[int]) -> Work:
    """At most: episodes that are still to be played, of so many decisions each."""
    return Work(
        grader_calls(order.grader, len(decisions), order.repeats) if isinstance(order.grader, GraderSettings) else (),
        summarizer_calls(order.summarizer, decisions) if order.summarizer else (),
    )


def played_work(order: GradingOrder, folder: RunFolder, owed: Owed, said: Said | None = None) -> Work:
    """What is owed of played episodes; `said` is their feedback, if not what is stored. Reads their texts."""
    unfit = survey_sides(folder, folder.survey().committed).unfit
    reader, side, wanted = RunReader(folder), SideFolder(folder, unfit), wanted_of(order, folder, said)

    def tasks(units: Iterable[Unit]) -> Iterator[UnitTask]:
        return (UnitTask(order, side, unit, "forecast", reader.read(unit, texts=True)) for unit in units)

    to_grade = chain.from_iterable(_gradings(task, wanted) for task in tasks(owed.grades))
    to_summarize = chain.from_iterable(task.spans_owed() for task in tasks(owed.summaries))
    return Work(
        gradings_of(order.grader, to_grade) if isinstance(order.grader, GraderSettings) else (),
        batches_of(order.summarizer, to_summarize) if order.summarizer else (),
    )


def _gradings(task: UnitTask, wanted: Wanted) -> Iterator[GradingTask]:
    for question in task.questions(wanted):
        transcript = task.episode(question.episode_id).transcript()
        yield GradingTask(transcript, wanted.said.get(question.episode_id, ()))


def grading_plan(order: GradingOrder | None, *works: Work) -> dict[str, Any]:
    """What `works` take together, as plain JSON values: where every first reply can be used, and at most.

    Money is None where some price is not known. A request without an answer is sent up to `request_tries` times.
    """
    models = [] if order is None else _forecasts(order, works)
    first, most = [told.first for told in models], [told.most for told in models]
    return {
        "source": None if order is None else order.source,
        "models": [told.as_dict() for told in models],
        "calls": sum(takes.calls for takes in first),
        "tokens": sum(takes.tokens for takes in first),
        "usd": _usd(first),
        "calls_at_most": sum(takes.calls for takes in most),
        "tokens_at_most": sum(takes.tokens for takes in most),
        "usd_at_most": _usd(most),
        "request_tries": None if order is None else order.calls.tries,
    }


def _usd(takes: Sequence[Takes]) -> float | None:
    known = [one.usd for one in takes if one.usd is not None]
    return sum(known) if len(known) == len(takes) else None


def _forecasts(order: GradingOrder, works: Sequence[Work]) -> list[Forecast]:
    found: list[Forecast] = []
    if isinstance(order.grader, GraderSettings):
        asked = chain.from_iterable(work.grades for work in works)
        found.append(forecast("grader", order.grader.model, asked, order.prices))
    if order.summarizer is not None:
        asked = chain.from_iterable(work.summaries for work in works)
        found.append(forecast("summarizer", order.summarizer.model, asked, order.prices))
    return found


def grading_plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """A grading plan in words: who grades, and a line a model that is called."""
    lines = [f"{told['who']} {told['model']}: {_calls(told)}" for told in plan["models"]]
    if plan["source"] in ("heuristic", "explicit"):
        lines.append(f"{plan['source']} grades: no model is called for them")
    if plan["models"]:
        lines.append(f"a request that gets no answer is sent up to {plan['request_tries']} times")
    return lines or ["nothing is graded"]


def _calls(told: Mapping[str, Any]) -> str:
    cost = "cost unknown (no price for the model)" if told["usd"] is None else f"{told['usd']:,.4f} USD"
    most = f"{counted(told['calls_at_most'], 'call')}, {counted(told['tokens_at_most'], 'token')}"
    most += "" if told["usd_at_most"] is None else f", {told['usd_at_most']:,.4f} USD"
    tokens = f"{counted(told['tokens_in'], 'token')} in, {told['tokens_out']:,} out"
    first = f"{counted(told['calls'], 'call')}, up to {tokens}, {cost}"
    return f"{first}; at most, where replies cannot be used and are asked for again: {most}"


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
    for heading in ("units", "episodes", "decisions", "MB", "policy\ncalls"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in (
        *told["groups"],
        {**told, "scenario": "all", "rubric": "", "policy": "", "calls_at_most": told["policy_calls_at_most"]},
    ):
        numbers = (row["units_owed"], row["episodes_owed"], row["decisions_at_most"])
        sizes = (f"{row['bytes_at_most'] / 1e6:,.1f}", f"{row['calls_at_most']:,}")
        table.add_row(row["scenario"], row["rubric"], row["policy"], *(f"{n:,}" for n in numbers), *sizes)
    console.print(table)
    exists = "exists; what it has is kept" if told["exists"] else "does not exist yet"
    models = [f"policy {model['model']}: {_calls(model)}" for model in told["policies"]]
    for line in (*models, *grading_plan_lines(told["grading"])):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    console.print(
        f"decisions, MB and calls are upper limits; {told['location']} {exists}", soft_wrap=True, highlight=False
    )
