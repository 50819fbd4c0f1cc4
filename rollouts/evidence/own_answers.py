"""Whose decisions a run's rows are: how many of those that a policy was asked for it gave no option for, so that the
first one was sent in its place. Made from a manifest alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MUCH = 0.5
"""From this share on it is said aloud."""
Group = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Standins:
    """Of `asked` decisions, how many were out of schema, by cause; `where`: scenario and rubric, empty for all."""

    policy: str
    where: str
    asked: int
    causes: Counter[str]

    @property
    def share(self) -> float:
        """In [0, 1]; 0 where nothing was asked."""
        return self.causes.total() / self.asked if self.asked else 0.0

    def __str__(self) -> str:
        cause, n = self.causes.most_common(1)[0]
        return (
            f"policy {self.policy}{f' in {self.where}' if self.where else ''}: {self.causes.total():,} of "
            f"{self.asked:,} decisions ({self.share:.0%}) were not its own: the first option was sent in the place of "
            f"an answer that was none; most frequent cause: {cause} ({n:,})"
        )

    def as_dict(self) -> dict[str, Any]:
        return {"policy": self.policy, "asked": self.asked, "out_of_schema_by_cause": dict(self.causes)}


def much_not_its_own(manifest: Mapping[str, Any]) -> list[Standins]:
    """The groups of which at least `MUCH` was decided by nobody."""
    return [found for found in _groups(manifest) if found.share >= MUCH]


def without_an_answer(manifest: Mapping[str, Any]) -> list[Standins]:
    """The policies that were asked and gave no answer in the whole run."""
    groups = list(_groups(manifest))
    policies = [_together(g for g in groups if g.policy == name) for name in dict.fromkeys(g.policy for g in groups)]
    return [found for found in policies if found.share == 1]


def _groups(manifest: Mapping[str, Any]) -> Iterable[Standins]:
    for block, coverage in zip(manifest["results"], manifest["coverage"]["groups"], strict=True):
        asked = block.get("rubric_agreement", {}).get("n", block["n_decisions"])
        causes = Counter(coverage["out_of_schema_by_cause"])
        yield Standins(block["policy"], f"{block['scenario']}/{block['rubric']}", asked, causes)


def _together(groups: Iterable[Standins]) -> Standins:
    first, *others = groups
    causes = sum((other.causes for other in others), start=first.causes)
    return Standins(first.policy, "", first.asked + sum(other.asked for other in others), causes)
