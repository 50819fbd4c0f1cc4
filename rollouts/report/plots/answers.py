"""Plots of single decisions: agreement and how well confidence fits it, times, actions, answers that were none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator

from rollouts.metrics import percentile
from rollouts.naming import counted, slug
from rollouts.report.plots.drawing import COLOURS, HEIGHT, INK, Sketch, error_bar, legend
from rollouts.report.plots.series import Series, by_scenario, short

NOTHING = "nothing sent"


def agreement(series: Sequence[Series]) -> Iterator[Sketch]:
    found = [(one, one.line.agreement) for one in series]
    known = [(one, estimate) for one, estimate in found if estimate is not None and estimate.value is not None]
    if known:
        told = "; ".join(f"{one.scenario} {one.name} {estimate.told(3)}" for one, estimate in known)
        yield Sketch(
            name="agreement",
            title="Agreement with the rule",
            alt=f"Share of asked decisions that do what the rule prescribes, with 95 % intervals: {told}.",
            draw=partial(_draw_agreement, known=known),
            note="Not accuracy: the game has no gold label. Bars: bootstrap over episodes, 95 %.",
        )


def _draw_agreement(axes: Any, known: Sequence[tuple[Series, Any]]) -> None:
    for number, (one, estimate) in enumerate(known):
        error_bar(axes, number, estimate, one.colour, one.marker)
    axes.set_xticks(range(len(known)), [f"{one.name}\n{one.scenario}" for one, _ in known], rotation=30, ha="right")
    axes.set_xlim(-0.6, len(known) - 0.4)
    axes.set_ylim(-0.03, 1.05)
    axes.set_ylabel("share of decisions")


def reliability(series: Sequence[Series]) -> Iterator[Sketch]:
    for scenario, groups in by_scenario(series):
        known = [one for one in groups if one.group.calibration.n]
        if known:
            told = "; ".join(
                f"{one.name}: ECE {one.group.calibration.ece:.3f} over {one.group.calibration.n:,}" for one in known
            )
            yield Sketch(
                name=f"reliability-{slug(scenario)}",
                title=f"{scenario}: confidence and agreement",
                alt=f"Reliability diagram of {scenario}, 15 bins of equal mass. {told} usable decisions.",
                draw=partial(_draw_reliability, groups=known),
                note="On the diagonal a policy is as often in agreement as it is confident.",
            )


def _draw_reliability(axes: Any, groups: Sequence[Series]) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    for one in groups:
        bins = one.group.calibration.bins
        points = [(b.confidence / b.n, b.correct / b.n) for b in bins]
        axes.plot(
            *zip(*points, strict=True), color=one.colour, marker=one.marker, markersize=4, linewidth=1, label=one.name
        )
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("probability of the policy's own choice")
    axes.set_ylabel("share in agreement")
    legend(axes)


def latency(series: Sequence[Series]) -> Iterator[Sketch]:
    """Of those who took time at all: the oracle and random say 0."""
    timed = [one for one in series if (one.group.latency_ms > 0).any()]
    if timed:
        told = "; ".join(f"{one.scenario} {one.name}: {_times(one)}" for one in timed)
        untimed = counted(len(series) - len(timed), "group") + " without a time" if len(timed) < len(series) else ""
        yield Sketch(
            name="latency",
            title="Time to an answer",
            alt=f"Cumulative distribution of decision latency, log scale. {told}.",
            draw=partial(_draw_latency, timed=timed),
            note="The request that was answered, without queue, failed tries and pauses."
            + (f" Not shown: {untimed}." if untimed else ""),
        )


def _times(one: Series) -> str:
    p50, p95 = (percentile(one.group.latency_ms.tolist(), q) or 0.0 for q in (50, 95))
    return f"p50 {p50:,.1f} ms, p95 {p95:,.1f} ms of {counted(len(one.group.latency_ms), 'decision')}"


def _draw_latency(axes: Any, timed: Sequence[Series]) -> None:
    for number, one in enumerate(timed):
        shares = np.linspace(0, 100, 201)
        style = ("-", "--", "-.", ":")[number % 4]
        axes.plot(
            np.percentile(one.group.latency_ms, shares),
            shares / 100,
            style,
            color=one.colour,
            label=f"{one.name}, {one.scenario}",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("ms")
    axes.set_ylabel("share of decisions")
    legend(axes, columns=1)


def actions(series: Sequence[Series]) -> Iterator[Sketch]:
    for scenario, groups in by_scenario(series):
        bars = [(one.name, one.group.actions.sent) for one in groups if one.group.actions.sent]
        teachers = sum(
            (one.group.actions.teacher for one in groups if one.group.facts.has_teacher), start=Counter[str | None]()
        )
        bars += [("the rule, asked there", teachers)] if teachers else []
        if bars:
            options = groups[0].run.manifest["scenarios"][scenario]["options"]
            yield Sketch(
                name=f"actions-{slug(scenario)}",
                title=f"{scenario}: actions sent",
                alt=f"Shares of actions in {scenario}. "
                + " ".join(f"{name}: {_shares(found)}." for name, found in bars),
                draw=partial(_draw_actions, bars=bars, options=options),
                note="The last bar: what the rule prescribes in the states that these policies came to."
                if teachers
                else "",
                height=max(HEIGHT * 0.7, 1.4 + 0.35 * len(bars)),
            )


def _shares(found: Counter[str | None]) -> str:
    return ", ".join(f"{name or NOTHING} {n / found.total():.1%}" for name, n in found.most_common())


def _draw_actions(axes: Any, bars: Sequence[tuple[str, Counter[str | None]]], options: Sequence[str]) -> None:
    wanted: list[str | None] = [*options, *([None] if any(None in found for _, found in bars) else [])]
    left = np.zeros(len(bars))
    for number, option in enumerate(wanted):
        widths = np.array([found[option] / found.total() for _, found in bars])
        axes.barh(range(len(bars)), widths, left=left, color=COLOURS[number % len(COLOURS)], label=option or NOTHING)
        left += widths
    axes.set_yticks(range(len(bars)), [short(name) for name, _ in bars])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of decisions")
    legend(axes, columns=3)


def out_of_schema(series: Sequence[Series]) -> Iterator[Sketch]:
    """Nothing where every answer was one."""
    found = [(one, causes) for one in series if (causes := _causes(one))]
    if found:
        names = sorted({cause for _, causes in found for cause in causes})
        told = "; ".join(
            f"{one.scenario} {one.name}: " + ", ".join(f"{n:,} {cause}" for cause, n in causes.items())
            for one, causes in found
        )
        yield Sketch(
            name="out-of-schema",
            title="Answers that were none, by cause",
            alt=f"Out-of-schema decisions by cause. {told}.",
            draw=partial(_draw_causes, found=found, names=names),
            note="The first option was sent in their place.",
            height=max(HEIGHT * 0.7, 1.4 + 0.35 * len(found)),
        )


def _causes(one: Series) -> dict[str, int]:
    return dict(one.line.coverage["out_of_schema_by_cause"])


def _draw_causes(axes: Any, found: Sequence[tuple[Series, dict[str, int]]], names: Sequence[str]) -> None:
    left = np.zeros(len(found))
    for number, name in enumerate(names):
        widths = np.array([causes.get(name, 0) for _, causes in found], np.float64)
        axes.barh(range(len(found)), widths, left=left, color=COLOURS[number % len(COLOURS)], label=name)
        left += widths
    axes.set_yticks(range(len(found)), [f"{one.name}\n{one.scenario}" for one, _ in found])
    axes.invert_yaxis()
    axes.set_xlabel("decisions")
    legend(axes, columns=3)
