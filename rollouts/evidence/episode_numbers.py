"""A run's numbers episode by episode, for intervals, pairs and plots.

Counted by the tallies that the manifest's numbers come from, from the same committed rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from rollouts.calibration import Bools, Calibration
from rollouts.evidence.committed_run import CommittedRun, GroupName, read_units
from rollouts.evidence.results import EpisodeRow, GroupFacts
from rollouts.metrics import Agreement, AgreementTally, DecisionColumns
from rollouts.shards.decision_columns import DecisionBatch

NO_AGREEMENT = AgreementTally().result()


@dataclass(frozen=True, slots=True)
class EpisodeNumbers:
    """An episode's row that counts, and its own agreement (n 0 where it has none)."""

    row: EpisodeRow
    agreement: Agreement = NO_AGREEMENT

    @property
    def disagreements(self) -> int:
        """Decisions for which the policy was asked and did not do what the teacher would."""
        return self.agreement.n - self.agreement.agreed


@dataclass(frozen=True, slots=True)
class GroupNumbers:
    """One (scenario, rubric, policy): its episodes in the plan's order, failed ones too, and the calibration of all."""

    facts: GroupFacts
    episodes: tuple[EpisodeNumbers, ...]
    calibration: Calibration

    @property
    def completed(self) -> list[EpisodeNumbers]:
        return [episode for episode in self.episodes if episode.row.completed]


def measure(run: CommittedRun, policies: Collection[str] | None = None) -> tuple[GroupNumbers, ...]:
    """Every group of the plan, in its order; those of `policies` alone, where given.

    Errors: `StorageError`, also where a shard is torn.
    """
    tallies = {
        facts.name: NumbersTally(facts) for facts in run.groups() if policies is None or facts.policy in policies
    }
    for unit in read_units(run, tallies):
        group: GroupName = (unit.unit.scenario, unit.unit.rubric, unit.unit.policy)
        for episode in unit.episodes:
            if run.latest.get(episode.episode_id) == unit.unit.number:
                tallies[group].add_episode(episode)
        for batch in unit.decisions:
            tallies[group].add_decisions(batch)
    return tuple(tally.result() for tally in tallies.values())


class NumbersTally:
    """Collects a group's rows: its episodes once each, its decisions batch by batch."""

    def __init__(self, facts: GroupFacts) -> None:
        self.facts = facts
        self._episodes: dict[str, EpisodeRow] = {}
        self._agreements: dict[str, AgreementTally] = {}
        self._together = AgreementTally()

    def add_episode(self, row: EpisodeRow) -> None:
        self._episodes[row.episode_id] = row

    def add_decisions(self, batch: DecisionBatch) -> None:
        self._together.add(batch.rows)
        for episode_id, rows in _by_episode(batch):
            self._agreements.setdefault(episode_id, AgreementTally()).add(rows)

    def result(self) -> GroupNumbers:
        place = {seed: number for number, seed in enumerate(self.facts.seeds)}
        rows = sorted(self._episodes.values(), key=lambda row: (place.get(row.seed, len(place)), row.seed, row.index))
        episodes = tuple(EpisodeNumbers(row, self._agreement(row.episode_id)) for row in rows)
        return GroupNumbers(self.facts, episodes, self._together.calibration())

    def _agreement(self, episode_id: str) -> Agreement:
        found = self._agreements.get(episode_id)
        return NO_AGREEMENT if found is None else found.result()


def _by_episode(batch: DecisionBatch) -> Iterator[tuple[str, DecisionColumns]]:
    ids = np.array(batch.episode_ids)
    for episode_id in dict.fromkeys(batch.episode_ids):
        yield episode_id, _rows(batch.rows, ids == episode_id)


def _rows(rows: DecisionColumns, wanted: Bools) -> DecisionColumns:
    columns = {column.name: getattr(rows, column.name)[wanted] for column in dataclasses.fields(rows)}
    return DecisionColumns(**columns)
