"""What is compared: what one policy of one run played, episode by episode. Made from committed rows alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rollouts.calibration import Calibration
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.episode_numbers import EpisodeNumbers, GroupNumbers, measure
from rollouts.evidence.results import GroupFacts
from rollouts.naming import counted
from rollouts.statistics.paired import Column

Place = tuple[int, int]
"""(seed, episode index): what two plays of a scenario are paired by."""
Better = Literal["higher", "lower"]
AGREEMENT, BRIER, OUT_OF_SCHEMA = "agreement", "brier", "out_of_schema"
LATENCIES = ("latency_ms_p50", "latency_ms_p95")
COST, TOKENS = "cost_usd", "tokens"
_LOWER = frozenset({BRIER, OUT_OF_SCHEMA, *LATENCIES, COST, TOKENS})


@dataclass(frozen=True, slots=True)
class Ratio:
    """What an episode adds to a measure: `above` of `below`; its metric of 1, its agreeing decisions of those asked."""

    above: float
    below: float = 1.0


@dataclass(frozen=True)
class PlayedGroup:
    """One (scenario, rubric) as a policy played it. `name` is what the user called the policy's run.

    `episodes`: of each completed one its measures by name, the scenario's metric first. `absent`: planned episodes that
    have none, and why. `settings` must be equal for a comparison to mean what it seems to mean.
    """

    name: str
    run_id: str
    facts: GroupFacts
    unit: str
    settings: Mapping[str, Any]
    episodes: Mapping[Place, Mapping[str, Ratio]]
    absent: Mapping[Place, str]
    calibration: Calibration

    @property
    def metric(self) -> str:
        return self.facts.metric_name

    @property
    def measures(self) -> list[str]:
        """The names of those that any episode has."""
        return list(dict.fromkeys(name for measures in self.episodes.values() for name in measures))

    def column(self, measure: str, places: Sequence[Place]) -> Column:
        """A measure of the completed episodes at `places`, in that order."""
        found = [self.episodes[place].get(measure, Ratio(0.0, 0.0)) for place in places]
        return Column.ratios([ratio.above for ratio in found], [ratio.below for ratio in found])

    def value(self, place: Place) -> float | None:
        """The metric of a completed episode."""
        found = self.episodes[place].get(self.metric)
        return None if found is None else found.above

    @property
    def coverage(self) -> str:
        planned = len(self.episodes) + len(self.absent)
        return f"{len(self.episodes):,} of {counted(planned, 'episode')} completed"


def better(measure: str) -> Better:
    """Which way is good. All metrics, agreement and R grow with it."""
    return "lower" if measure in _LOWER else "higher"


Extra = Callable[[CommittedRun], Mapping[str, Mapping[str, Ratio]]]
"""Episode id → more measures of it, from side tables."""


def played_groups(run: CommittedRun, name: str, policies: Sequence[str], extra: Extra) -> list[PlayedGroup]:
    """What `policies` played in `run`, in the plan's order. Errors: `StorageError`."""
    more = extra(run)
    return [_group(run, f"{name}:{numbers.facts.policy}", numbers, more) for numbers in measure(run, policies)]


def _group(run: CommittedRun, name: str, numbers: GroupNumbers, more: Mapping[str, Mapping[str, Ratio]]) -> PlayedGroup:
    facts = numbers.facts
    absent = {_place(e): f"failed ({e.row.stage}: {e.row.cause})" for e in numbers.episodes if not e.row.completed}
    played = {_place(e): dict(_measures(facts, e, more)) for e in numbers.completed}
    owed = {place: why for place, why in _owed(run, facts) if place not in played and place not in absent}
    return PlayedGroup(
        name=name,
        run_id=str(run.record["run_id"]),
        facts=facts,
        unit=run.record["scenarios"][facts.scenario]["metric"]["unit"],
        settings=_settings(run, facts),
        episodes=played,
        absent={**absent, **owed},
        calibration=numbers.calibration,
    )


def _place(episode: EpisodeNumbers) -> Place:
    return episode.row.seed, episode.row.index


def _owed(run: CommittedRun, facts: GroupFacts) -> Iterator[tuple[Place, str]]:
    for unit in run.plan:
        if (unit.scenario, unit.rubric, unit.policy) == facts.name and unit.number not in run.committed:
            why = "damaged" if run.is_damaged(unit) else "not played yet"
            yield from (((episode.seed, episode.index), why) for episode in unit.episodes)


def _measures(
    facts: GroupFacts, episode: EpisodeNumbers, more: Mapping[str, Mapping[str, Ratio]]
) -> Iterator[tuple[str, Ratio]]:
    """By name; those without a number are left out, never 0."""
    row, agreement = episode.row, episode.agreement
    if row.metric is not None and math.isfinite(row.metric):
        yield facts.metric_name, Ratio(row.metric)
    yield from more.get(row.episode_id, {}).items()
    if agreement.n:
        yield AGREEMENT, Ratio(agreement.agreed, agreement.n)
    if agreement.brier is not None:
        yield BRIER, Ratio(agreement.brier * agreement.n_usable, agreement.n_usable)
    if row.steps:
        yield OUT_OF_SCHEMA, Ratio(row.n_out_of_schema, row.steps)
    for name in LATENCIES:
        if (value := getattr(row, name)) is not None:
            yield name, Ratio(value)


def _settings(run: CommittedRun, facts: GroupFacts) -> dict[str, Any]:
    """By the name that people know: what changes the game under the policies' feet."""
    record, scenario = run.record, run.record["scenarios"][facts.scenario]
    configuration = record["configuration"]
    return {
        "rubric": facts.rubric,
        "tics": facts.tics,
        "step_cap": facts.step_cap,
        "metric": facts.metric_name,
        "scenario files": scenario.get("provenance"),
        "engine": record.get("engine"),
        "realtime": configuration.get("realtime"),
        "latency_ms": configuration.get("latency_ms"),
    }
