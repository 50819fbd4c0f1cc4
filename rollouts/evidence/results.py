"""Result blocks: what one (scenario, rubric, policy) comes out at, from its rows alone. Pure, no files.

Only completed episodes count; a failed one has no metric and no decisions, and is told by stage and cause.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.metrics import AgreementTally, DecisionColumns, ExactTally, aggregate

COMPLETED = "completed"
FAILED = "failed"
TRIPLES_LOCATION = "steps/*.parquet"
_NAMED_FAILURES = 20


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a group before anything is played. `seeds`: the planned ones, in order."""

    scenario: str
    rubric: str
    policy: str
    metric_name: str
    tics: int
    step_cap: int
    episodes_per_seed: int
    seeds: tuple[int, ...]
    n_planned: int
    seeds_published: bool
    has_teacher: bool
    captures_frames: bool

    @property
    def name(self) -> tuple[str, str, str]:
        return (self.scenario, self.rubric, self.policy)


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """The `episodes` row that counts for an episode (the last one committed). `played_s` is its wall time."""

    episode_id: str
    seed: int
    index: int
    status: str
    metric: float | None
    steps: int
    played_s: float
    n_out_of_schema: int = 0
    stage: str | None = None
    cause: str | None = None
    end_reason: str | None = None
    latency_ms_p50: float | None = None
    latency_ms_p95: float | None = None

    @property
    def completed(self) -> bool:
        return self.status == COMPLETED


class GroupTally:
    """Collects the rows of one group: its episodes once each, its decisions batch by batch in any order."""

    def __init__(self, facts: GroupFacts) -> None:
        self.facts = facts
        self.episodes: list[EpisodeRow] = []
        self.n_decisions = 0
        self.n_triples = 0
        self.out_of_schema: Counter[str] = Counter()
        self._agreement = AgreementTally()
        self._exact = ExactTally()

    def add_episode(self, row: EpisodeRow) -> None:
        self.episodes.append(row)

    def add_decisions(
        self,
        rows: DecisionColumns,
        schema_errors: Iterable[str | None],
        n_triples: int,
        parse_rules: Sequence[str | None] | None = None,
    ) -> None:
        """Decisions of completed episodes. `schema_errors` has the cause of each row that is out of schema,
        `parse_rules` the rule by which its reply was read."""
        self.n_decisions += len(rows.asked)
        self.n_triples += n_triples
        causes = zip(rows.out_of_schema, schema_errors, strict=True)
        self.out_of_schema.update(cause or "unknown" for out, cause in causes if out)
        self._agreement.add(rows)
        self._exact.add(rows, [None] * len(rows.asked) if parse_rules is None else parse_rules)

    def block(self) -> dict[str, Any]:
        """The result block: plain JSON values, the same for the same rows in any order."""
        facts, completed = self.facts, self._completed()
        block: dict[str, Any] = {
            "scenario": facts.scenario,
            "rubric": facts.rubric,
            "policy": facts.policy,
            "tics": facts.tics,
            "step_cap": facts.step_cap,
            "episodes_per_seed": facts.episodes_per_seed,
            "seeds": list(facts.seeds),
            "seeds_published": facts.seeds_published,
            "n_decisions": self.n_decisions,
            "n_out_of_schema": self.out_of_schema.total(),
            f"{facts.metric_name}_by_episode": [_shown(row) for row in completed],
            f"{facts.metric_name}_aggregate": self._aggregate(completed),
        }
        if facts.has_teacher:
            block["rubric_agreement"] = dataclasses.asdict(self._agreement.result())
        exact = self._exact.result()
        if exact is not None:
            block["exact_match"] = dataclasses.asdict(exact)
        block["triples"] = self._triples()
        return block

    def _aggregate(self, completed: Iterable[EpisodeRow]) -> dict[str, Any]:
        return dataclasses.asdict(aggregate(row.metric for row in completed if row.metric is not None))

    def _triples(self) -> dict[str, Any]:
        if not self.facts.captures_frames:
            return {"enabled": False}
        return {"enabled": True, "location": TRIPLES_LOCATION, "n_triples": self.n_triples}

    def _completed(self) -> list[EpisodeRow]:
        """In the plan's order: seeds as configured, then the index."""
        place = {seed: i for i, seed in enumerate(self.facts.seeds)}
        done = [row for row in self.episodes if row.completed]
        return sorted(done, key=lambda row: (place.get(row.seed, len(place)), row.seed, row.index))

    def coverage(self) -> dict[str, Any]:
        """How much of the plan there is, why not more, and how fast one actor played it."""
        facts, completed = self.facts, self._completed()
        played_s = math.fsum(row.played_s for row in completed)
        return {
            "scenario": facts.scenario,
            "rubric": facts.rubric,
            "policy": facts.policy,
            "planned": facts.n_planned,
            "completed": len(completed),
            "failed": len(self.episodes) - len(completed),
            "owed": facts.n_planned - len(self.episodes),
            "out_of_schema_by_cause": dict(sorted(self.out_of_schema.items())),
            "decisions_per_s_of_play": self.n_decisions / played_s if played_s > 0 else None,
        }

    def failures(self) -> list[dict[str, Any]]:
        """One entry for each stage and cause, the most frequent first, with the first episodes it befell."""
        befell: dict[tuple[str, str], list[str]] = {}
        for row in sorted(self.episodes, key=lambda row: (row.seed, row.index)):
            if not row.completed:
                befell.setdefault((row.stage or "unknown", row.cause or "unknown"), []).append(row.episode_id)
        group = {"scenario": self.facts.scenario, "rubric": self.facts.rubric, "policy": self.facts.policy}
        return [
            {**group, "stage": stage, "cause": cause, "n": len(ids), "first_episodes": ids[:_NAMED_FAILURES]}
            for (stage, cause), ids in sorted(befell.items(), key=lambda item: (-len(item[1]), item[0]))
        ]


def _shown(row: EpisodeRow) -> dict[str, Any]:
    """A metric that is no finite number is null: JSON has no other word for it, and no mean counts it."""
    value = row.metric if row.metric is not None and math.isfinite(row.metric) else None
    return {"seed": row.seed, "episode_index": row.index, "value": value, "steps": row.steps}


def total_coverage(groups: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The sums of the groups' coverages: completed n of planned m."""
    listed = list(groups)
    return {key: sum(int(group[key]) for group in listed) for key in ("planned", "completed", "failed", "owed")}
