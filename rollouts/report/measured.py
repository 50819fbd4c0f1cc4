"""What plots and intervals are made of: each episode's own numbers, and each group's calibration, times and actions.

All of it is counted by the tallies that the manifest's numbers come from, from the same committed rows.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from rollouts.calibration import Bools, Calibration, Floats
from rollouts.evidence.committed_run import CommittedRun, GroupName, read_units
from rollouts.evidence.results import EpisodeRow, GroupFacts
from rollouts.metrics import Agreement, AgreementTally, DecisionColumns
from rollouts.report.episode_rows import EpisodeRows
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
class Actions:
    """How often each action was sent, and prescribed; None where nothing was sent, or nothing is prescribed."""

    sent: Counter[str | None] = field(default_factory=Counter)
    teacher: Counter[str | None] = field(default_factory=Counter)


@dataclass(frozen=True)
class GroupNumbers:
    """One (scenario, rubric, policy): its episodes in the plan's order, failed ones too, and all its decisions.

    `latency_ms` holds every latency that was measured, (n,), in no order.
    """

    facts: GroupFacts
    episodes: tuple[EpisodeNumbers, ...]
    calibration: Calibration
    latency_ms: Floats
    actions: Actions

    @property
    def completed(self) -> list[EpisodeNumbers]:
        return [episode for episode in self.episodes if episode.row.completed]


def measure(run: CommittedRun, rows: EpisodeRows) -> tuple[GroupNumbers, ...]:
    """Every group of the plan, in its order. Errors: `StorageError`, also where a shard is torn."""
    tallies = {facts.name: _Tally(facts) for facts in run.groups()}
    for unit in read_units(run):
        tally = tallies[unit.unit.scenario, unit.unit.rubric, unit.unit.policy]
        for episode in unit.episodes:
            if run.latest.get(episode.episode_id) == unit.unit.number:
                tally.episodes[episode.episode_id] = episode
        for batch in unit.decisions:
            tally.add(batch)
    _add_times_and_actions(tallies, rows)
    return tuple(tally.result() for tally in tallies.values())


class _Tally:
    def __init__(self, facts: GroupFacts) -> None:
        self.facts = facts
        self.episodes: dict[str, EpisodeRow] = {}
        self.agreements: dict[str, AgreementTally] = {}
        self.together = AgreementTally()
        self.latency_ms: list[Floats] = []
        self.actions = Actions()

    def add(self, batch: DecisionBatch) -> None:
        self.together.add(batch.rows)
        for episode_id, rows in _by_episode(batch):
            self.agreements.setdefault(episode_id, AgreementTally()).add(rows)

    def result(self) -> GroupNumbers:
        place = {seed: number for number, seed in enumerate(self.facts.seeds)}
        rows = sorted(self.episodes.values(), key=lambda row: (place.get(row.seed, len(place)), row.seed, row.index))
        return GroupNumbers(
            facts=self.facts,
            episodes=tuple(EpisodeNumbers(row, self._agreement(row.episode_id)) for row in rows),
            calibration=self.together.calibration(),
            latency_ms=np.concatenate([np.zeros(0), *self.latency_ms]),
            actions=self.actions,
        )

    def _agreement(self, episode_id: str) -> Agreement:
        found = self.agreements.get(episode_id)
        return NO_AGREEMENT if found is None else found.result()


def _by_episode(batch: DecisionBatch) -> Iterator[tuple[str, DecisionColumns]]:
    ids = np.array(batch.episode_ids)
    for episode_id in dict.fromkeys(batch.episode_ids):
        yield episode_id, _rows(batch.rows, ids == episode_id)


def _rows(rows: DecisionColumns, wanted: Bools) -> DecisionColumns:
    columns = {column.name: getattr(rows, column.name)[wanted] for column in dataclasses.fields(rows)}
    return DecisionColumns(**columns)


def _add_times_and_actions(tallies: Mapping[GroupName, _Tally], rows: EpisodeRows) -> None:
    for group, latency_ms, sent, teacher in rows.times_and_actions():
        tally = tallies[group]
        tally.latency_ms.append(latency_ms)
        tally.actions.sent.update(sent)
        tally.actions.teacher.update(teacher)
