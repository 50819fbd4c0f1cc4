"""Plots of what was judged, and of what models took: R and its axes, tokens and money."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rollouts.naming import slug
from rollouts.report.headline import GRADES
from rollouts.report.plots.drawing import COLOURS, HEIGHT, INK, Sketch, error_bar, legend
from rollouts.report.plots.series import Series, short
from rollouts.report.reported_run import ReportedRun
from rollouts.statistics.estimates import Estimate


def grades(series: Sequence[Series]) -> Iterator[Sketch]:
    """One a grader: values of different sources are never pooled."""
    for run in dict.fromkeys(id(one.run) for one in series):
        own = [one for one in series if id(one.run) == run]
        for grader in own[0].run.graders:
            yield from _of_grader(own, grader, several=len(own) < len(series))


def _of_grader(own: Sequence[Series], grader: Mapping[str, Any], several: bool) -> Iterator[Sketch]:
    found = [(one, one.line.grades[grader["grader_id"]]) for one in own]
    known = [(one, estimates) for one, estimates in found if estimates["R"].value is not None]
    who = f"{grader['source']} {grader['grader_id']}"
    coverage = f"graded {grader['graded']:,} of {grader['of']:,}"
    if known:
        told = "; ".join(f"{one.scenario} {one.name}: R {estimates['R'].told()}" for one, estimates in known)
        run = f"-{slug(own[0].run.run_id)}" if several else ""
        yield Sketch(
            name=f"grades-{slug(grader['grader_id'])}{run}",
            title=f"R and its axes ({short(grader['grader_id'])})",
            alt=f"R and axes of {who}, {coverage}, means with 95 % intervals over episodes. {told}.",
            draw=partial(_draw_grades, known=known),
            note=f"Source: {grader['source']}. {coverage[0].upper()}{coverage[1:]}; the ungraded are in no mean.",
        )


def _draw_grades(axes: Any, known: Sequence[tuple[Series, Mapping[str, Estimate]]]) -> None:
    for number, (one, estimates) in enumerate(known):
        aside = (number - (len(known) - 1) / 2) * min(0.14, 0.7 / len(known))
        for place, name in enumerate(GRADES):
            if estimates[name].value is not None:
                error_bar(axes, place + aside, estimates[name], COLOURS[number % len(COLOURS)], one.marker)
        axes.plot([], [], one.marker, color=COLOURS[number % len(COLOURS)], label=f"{one.name}, {one.scenario}")
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_xticks(range(len(GRADES)), GRADES)
    axes.set_ylim(-1.08, 1.08)
    legend(axes, columns=1)


def cost(runs: Sequence[ReportedRun]) -> Iterator[Sketch]:
    """Money where every call has a price, else tokens; nothing where no model was asked."""
    asked = [calls for run in runs for calls in run.grading.get("calls", ()) if calls["calls"]]
    if not asked:
        return
    priced = all(calls["cost_usd"] is not None and not calls["calls_without_price"] for calls in asked)
    told = "; ".join(f"{calls['kind']} {calls['who']}: {_cost(calls, priced)}" for calls in asked)
    yield Sketch(
        name="cost",
        title="What the models took",
        alt=f"{'Cost in USD' if priced else 'Tokens'} by who asked. {told}.",
        draw=partial(_draw_cost, asked=asked, priced=priced),
        note="" if priced else "Tokens: not every call has a known price.",
        height=max(HEIGHT * 0.6, 1.3 + 0.4 * len(asked)),
    )


def _cost(calls: Mapping[str, Any], priced: bool) -> str:
    return f"{calls['cost_usd']:.4f} USD" if priced else f"{calls['tokens_in']:,} in, {calls['tokens_out']:,} out"


def _draw_cost(axes: Any, asked: Sequence[Mapping[str, Any]], priced: bool) -> None:
    rows = range(len(asked))
    if priced:
        axes.barh(rows, [calls["cost_usd"] for calls in asked], color=COLOURS[0])
    else:
        into = [calls["tokens_in"] for calls in asked]
        axes.barh(rows, into, color=COLOURS[0], label="tokens in")
        axes.barh(rows, [calls["tokens_out"] for calls in asked], left=into, color=COLOURS[1], label="tokens out")
    axes.set_yticks(rows, [f"{calls['kind']}\n{short(calls['who'])}" for calls in asked])
    axes.invert_yaxis()
    axes.set_xlabel("USD" if priced else "tokens")
    legend(axes)
