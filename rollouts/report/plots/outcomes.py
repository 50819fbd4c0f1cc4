"""Plots of how episodes went: the metric seed by seed, and how long they lasted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rollouts.evidence.episode_numbers import EpisodeNumbers
from rollouts.naming import counted, slug
from rollouts.report.headline import finite_metric
from rollouts.report.plots.drawing import Sketch, legend
from rollouts.report.plots.series import Series, by_scenario
from rollouts.statistics.library import scipy_stats

SEEDS_NAMED = 24
CENSORED = ("timeout", "step_cap")
"""Ends that say nothing of how long the policy would have lasted."""


def metric_by_seed(series: Sequence[Series]) -> Iterator[Sketch]:
    for scenario, groups in by_scenario(series):
        metric = groups[0].run.metric(scenario)
        seeds = list(dict.fromkeys(seed for one in groups for seed in one.group.facts.seeds))
        yield Sketch(
            name=f"metric-{slug(scenario)}",
            title=f"{scenario}: {metric['name']} by seed",
            alt=f"{metric['name']} ({metric['unit']}) of {scenario} by seed. {_means(groups)}",
            draw=partial(_draw_metric, groups=groups, seeds=seeds, metric=metric),
            note="A point an episode; lines are means over episodes.",
        )


def _draw_metric(axes: Any, groups: Sequence[Series], seeds: Sequence[int], metric: Mapping[str, str]) -> None:
    place = {seed: number for number, seed in enumerate(seeds)}
    for number, one in enumerate(groups):
        aside = (number - (len(groups) - 1) / 2) * min(0.16, 0.7 / len(groups))
        points = [
            (place[e.row.seed] + aside, value) for e in one.group.completed if (value := finite_metric(e)) is not None
        ]
        axes.scatter(
            *zip(*points, strict=True), s=14, color=one.colour, marker=one.marker, label=one.name
        ) if points else None
        if one.line.metric.value is not None:
            axes.axhline(one.line.metric.value, color=one.colour, linewidth=0.9, alpha=0.7)
    if len(seeds) <= SEEDS_NAMED:
        axes.set_xticks(
            range(len(seeds)), [f"…{seed % 1000:03d}" if seed >= 100_000 else str(seed) for seed in seeds], rotation=90
        )
    axes.set_xlabel("seed" if len(seeds) <= SEEDS_NAMED else f"{counted(len(seeds), 'seed')}, in the plan's order")
    axes.set_ylabel(f"{metric['name']} ({metric['unit']})")
    legend(axes)


def _means(groups: Sequence[Series]) -> str:
    told = [f"{one.name} {one.line.metric.told()}" for one in groups]
    return f"Means with 95 % intervals: {'; '.join(told)}."


def survival(series: Sequence[Series]) -> Iterator[Sketch]:
    for scenario, groups in by_scenario(series):
        played = [one for one in groups if one.group.completed]
        if played:
            yield Sketch(
                name=f"survival-{slug(scenario)}",
                title=f"{scenario}: episodes still going",
                alt=f"Share of {scenario}'s episodes still going, by decisions. {_ends(played)}",
                draw=partial(_draw_survival, groups=played),
                note="Kaplan-Meier: time limit and step cap (marked |) cut an episode off, they do not end it.",
            )


def _draw_survival(axes: Any, groups: Sequence[Series]) -> None:
    for one in groups:
        steps, going, censored = survival_curve(one.group.completed)
        axes.step(steps, going, where="post", color=one.colour, label=one.name)
        axes.plot(*zip(*censored, strict=True), "|", color=one.colour, markersize=7) if censored else None
    axes.set_xlabel("decisions")
    axes.set_ylabel("share still going")
    axes.set_ylim(-0.03, 1.03)
    legend(axes)


def survival_curve(
    episodes: Sequence[EpisodeNumbers],
) -> tuple[list[float], list[float], list[tuple[float, float]]]:
    """Kaplan and Meier (1958), by scipy: decisions, the share still going from there on, and where some were cut off.

    Begins at 0 decisions with all of them.
    """
    stats = scipy_stats()
    lasted = [float(episode.row.steps) for episode in episodes]
    cut = [episode.row.end_reason in CENSORED for episode in episodes]
    curve = stats.ecdf(stats.CensoredData.right_censored(lasted, cut)).sf
    steps = [0.0, *map(float, curve.quantiles)]
    going = [1.0, *map(float, curve.probabilities)]
    at = dict(zip(steps, going, strict=True))
    return steps, going, [(x, at[x]) for x in sorted({x for x, was in zip(lasted, cut, strict=True) if was})]


def _ends(groups: Sequence[Series]) -> str:
    return " ".join(_end(one) for one in groups)


def _end(one: Series) -> str:
    done = one.group.completed
    cut = sum(episode.row.end_reason in CENSORED for episode in done)
    lasted = sorted(episode.row.steps for episode in done)
    middle = lasted[len(lasted) // 2]
    return f"{one.name}: {counted(len(done), 'episode')}, half of them {middle:,} decisions or more, {cut:,} cut off."
