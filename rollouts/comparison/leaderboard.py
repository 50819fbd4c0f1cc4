"""Several policies on one scenario, over the episodes that all of them completed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.comparison.contest import NOT_PLANNED, Unpaired
from rollouts.comparison.played import Place, PlayedGroup
from rollouts.errors import UsageError
from rollouts.statistics.estimates import Estimate
from rollouts.statistics.paired import Difference, difference


@dataclass(frozen=True, slots=True)
class Line:
    """A policy of a run. `behind` is its metric less the leader's, pair by pair; None for the leader."""

    group: PlayedGroup
    estimates: Mapping[str, Estimate]
    behind: Difference | None

    @property
    def metric(self) -> Estimate | None:
        return self.estimates.get(self.group.metric)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.group.name,
            "run_id": self.group.run_id,
            "policy": self.group.facts.policy,
            "completed": len(self.group.episodes),
            "measures": {name: estimate.as_dict() for name, estimate in self.estimates.items()},
            "ece": self.group.calibration.ece,
            "behind_the_leader": None if self.behind is None else self.behind.as_dict(),
        }


@dataclass(frozen=True)
class Leaderboard:
    """`lines` by the mean of the metric, the best first; what has none is last."""

    scenario: str
    rubric: str
    metric: str
    unit: str
    episodes: tuple[Place, ...]
    unpaired: tuple[Unpaired, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        return f"{self.scenario}/{self.rubric}"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            **{"scenario": self.scenario, "rubric": self.rubric, "metric": self.metric, "unit": self.unit},
            "n_episodes": len(self.episodes),
            "unpaired": [found.as_dict() for found in self.unpaired],
            "lines": [line.as_dict() for line in self.lines],
        }


def leaderboard(groups: Sequence[PlayedGroup]) -> Leaderboard:
    """Of one scenario and rubric. Errors: `UsageError` where the metrics are not the same."""
    first = groups[0]
    if other := next((group for group in groups if group.metric != first.metric), None):
        raise UsageError(
            f"{first.name} and {other.name} have other metrics in {first.facts.scenario}: {first.metric} and "
            f"{other.metric}"
        )
    common = tuple(place for place in first.episodes if all(place in group.episodes for group in groups))
    estimates = [{name: group.column(name, common).estimate() for name in group.measures} for group in groups]
    ranked = sorted(zip(groups, estimates, strict=True), key=lambda one: _rank(one[0], one[1]))
    leader = ranked[0][0]
    return Leaderboard(
        scenario=first.facts.scenario,
        rubric=first.facts.rubric,
        metric=first.metric,
        unit=first.unit,
        episodes=common,
        unpaired=tuple(_left_out(groups)),
        lines=tuple(Line(group, found, _behind(leader, group, common)) for group, found in ranked),
    )


def _rank(group: PlayedGroup, estimates: Mapping[str, Estimate]) -> tuple[bool, float]:
    found = estimates.get(group.metric)
    known = found is not None and found.value is not None
    return (not known, -(found.value or 0.0) if found else 0.0)


def _behind(leader: PlayedGroup, group: PlayedGroup, places: Sequence[Place]) -> Difference | None:
    if group is leader:
        return None
    return difference(leader.column(leader.metric, places), group.column(leader.metric, places))


def _left_out(groups: Sequence[PlayedGroup]) -> Iterator[Unpaired]:
    """Episodes that somebody completed and somebody did not, once for each who did not."""
    for place in dict.fromkeys(place for group in groups for place in group.episodes):
        there = next(group for group in groups if place in group.episodes)
        for group in groups:
            if place not in group.episodes:
                yield Unpaired(place, there.name, group.name, group.absent.get(place, NOT_PLANNED))
