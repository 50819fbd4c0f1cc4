"""Which episodes a person should look at first: failures, then disagreements and answers that were none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rollouts.evidence.episode_numbers import EpisodeNumbers
from rollouts.report.judgements import Verdict


@dataclass(frozen=True, slots=True)
class Candidate:
    """An episode of the `group`-th group of the report."""

    run: int
    group: int
    numbers: EpisodeNumbers
    verdicts: Sequence[Verdict]

    @property
    def episode_id(self) -> str:
        return self.numbers.row.episode_id

    @property
    def troubled(self) -> int:
        """Decisions that were no option, or not what the teacher would do; whichever are more."""
        return max(self.numbers.row.n_out_of_schema, self.numbers.disagreements)

    @property
    def ungraded(self) -> bool:
        return any(verdict.status != "graded" for verdict in self.verdicts)

    @property
    def urgency(self) -> tuple[bool, bool, float, float]:
        """The larger, the earlier: failed, ungraded, the share of troubled decisions, a low R."""
        row = self.numbers.row
        r = min((verdict.r for verdict in self.verdicts if verdict.r is not None), default=1.0)
        return (not row.completed, self.ungraded, self.troubled / row.steps if row.steps else 0.0, -r)


def by_urgency(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Failed ones, ungraded ones, those with troubled decisions, and the rest; among equals the groups take turns."""
    classes: dict[tuple[bool, bool, bool], list[Candidate]] = {}
    for one in candidates:
        classes.setdefault((not one.numbers.row.completed, one.ungraded, one.troubled > 0), []).append(one)
    return [one for kind in sorted(classes, reverse=True) for one in in_turns(classes[kind])]


def in_turns(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The groups take turns, each with its most urgent episode, so that none hides the others."""
    groups: dict[int, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: one.urgency, reverse=True):
        groups.setdefault(one.group, []).append(one)
    return [one for turn in zip_longest(*groups.values()) for one in turn if one is not None]
