"""Plays to be compared, made up episode by episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.calibration import Calibration
from rollouts.comparison.played import Place, PlayedGroup, Ratio
from rollouts.evidence.results import GroupFacts


def facts(policy: str = "p", scenario: str = "counting", rubric: str = "rule", metric: str = "kills") -> GroupFacts:
    return GroupFacts(scenario, rubric, policy, metric, 4, 300, 1, (), 0, False, True, False)


def played(
    kills: Mapping[Place, float | None],
    absent: Mapping[Place, str] | None = None,
    more: Mapping[str, Mapping[Place, Ratio]] | None = None,
    settings: Mapping[str, Any] | None = None,
    **of: str,
) -> PlayedGroup:
    """Each episode's kills (None: it has no metric), and other measures by name."""
    episodes = {
        place: ({} if value is None else {"kills": Ratio(value)})
        | {name: ratios[place] for name, ratios in (more or {}).items() if place in ratios}
        for place, value in kills.items()
    }
    group = facts(**of)
    return PlayedGroup(
        f"run:{group.policy}", "run", group, "monsters", settings or {}, episodes, absent or {}, Calibration(())
    )


def of_seeds(values: list[float]) -> PlayedGroup:
    return played({(seed, 0): value for seed, value in enumerate(values)})
