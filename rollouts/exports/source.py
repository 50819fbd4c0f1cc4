"""The rows that an export reads: of which runs, through which filters, and how many each filter leaves out.

Which rows are committed, and how credit joins them, is the readers' business (rollouts/readers.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from rollouts.errors import UsageError
from rollouts.exports.prompts import Told
from rollouts.exports.samples import Reason, Row, Tally
from rollouts.loading.committed import read_commits
from rollouts.loading.selection import Filters
from rollouts.readers import count_rows, iter_batches
from rollouts.records import ShardFile, Unit
from rollouts.run.location import find_run
from rollouts.run.origin import Origin, read_origin
from rollouts.run.run_folder import RunFolder
from rollouts.shards.reading import Commit, to_rows

_REASONS: Mapping[str, Reason] = {
    "scenario": Reason.SCENARIO,
    "rubric": Reason.RUBRIC,
    "policy": Reason.POLICY,
    "graded": Reason.UNGRADED,
    "min_credit": Reason.MIN_CREDIT,
}
"""In the order in which filters are counted: a row counts for the first that leaves it out."""


@dataclass(frozen=True)
class SourceRun:
    """A run, or a merged set, that is read: whose rows it holds, its units, and what is committed of them."""

    folder: RunFolder
    origin: Origin
    plan: tuple[Unit, ...]
    commits: Mapping[int, Commit]

    @property
    def name(self) -> str:
        """Where it lies."""
        return self.folder.describe()

    @property
    def shards(self) -> tuple[ShardFile, ...]:
        """Its committed `steps` shards."""
        return tuple(commit.steps for _, commit in sorted(self.commits.items()) if commit.steps)


@dataclass(frozen=True)
class Source:
    """`named` are runs as a person names them."""

    named: tuple[str, ...]
    filters: Filters

    @cached_property
    def runs(self) -> tuple[SourceRun, ...]:
        """Errors: `UsageError` where one is no run, or two have one id: their rows could not be told apart."""
        runs = tuple(_opened(find_run(name)) for name in self.named)
        ids = Counter(run_id for run in runs for run_id in run.origin.records)
        for run_id in (run_id for run_id, n in ids.items() if n > 1):
            raise UsageError(f"two of the runs have the id {run_id}: their rows could not be told apart")
        return runs

    @property
    def instructions(self) -> Told:
        return {
            (run_id, scenario, rubric): told
            for run in self.runs
            for run_id, record in run.origin.records.items()
            for scenario, facts in record["scenarios"].items()
            for rubric, told in facts["instructions"].items()
        }

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """The wanted rows in order: run by run as named, unit by unit, tick by tick. Memory holds a row group."""
        for batch in iter_batches(self.named, columns, **self.filters):
            yield from to_rows(batch)

    def count_left_out(self, tally: Tally) -> None:
        """Note how many committed rows the filters leave out, filter by filter."""
        left = sum(shard.rows for run in self.runs for shard in run.shards)
        passed: Filters = {}
        for reason, name in ((Reason.SUPERSEDED, None), *((r, n) for n, r in _REASONS.items() if n in self.filters)):
            if name is not None:
                passed = cast(Filters, {**passed, **self._with(name)})
            there = count_rows(self.named, **passed)
            tally.left_out[reason] += left - there
            left = there

    def _with(self, name: str) -> dict[str, Any]:
        """A filter, and whose grades or credit it looks at."""
        needs = {"graded": "grader_id", "min_credit": "credit_id"}.get(name)
        given = cast(dict[str, Any], self.filters)
        return {key: given[key] for key in (name, needs) if key in given}


def _opened(folder: RunFolder) -> SourceRun:
    origin, plan = read_origin(folder), folder.read_plan()
    return SourceRun(folder, origin, plan, read_commits(folder, plan))
