"""The rows that an export reads: of which runs, through which filters, and how many each filter leaves out.

Which rows are committed, and how credit joins them, is the readers' business (rollouts/loading/). The runs are opened
once: what is committed while an export is written is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from rollouts.exports.prompts import Told
from rollouts.exports.samples import Reason, Row, Tally
from rollouts.loading.committed import OpenRun, open_runs
from rollouts.loading.rows import Rows, find_rows
from rollouts.loading.selection import Filters
from rollouts.run.location import find_run
from rollouts.shards.reading import to_rows

_REASONS: Mapping[str, Reason] = {
    "scenario": Reason.SCENARIO,
    "rubric": Reason.RUBRIC,
    "policy": Reason.POLICY,
    "graded": Reason.UNGRADED,
    "min_credit": Reason.MIN_CREDIT,
}
"""In the order in which filters are counted: a row counts for the first that leaves it out."""


@dataclass(frozen=True)
class Source:
    """`named` are runs as a person names them."""

    named: tuple[str, ...]
    filters: Filters

    @cached_property
    def runs(self) -> tuple[OpenRun, ...]:
        """Errors: `UsageError` where one is no run, or two have one id: their rows could not be told apart."""
        return open_runs(map(find_run, self.named))

    @property
    def instructions(self) -> Told:
        return {
            (run_id, scenario, rubric): told
            for run in self.runs
            for run_id, record in run.origin.records.items()
            for scenario, facts in record["scenarios"].items()
            for rubric, told in facts["instructions"].items()
        }

    def find(self, columns: Sequence[str] | None = None) -> Rows:
        """The wanted rows in order: run by run as named, unit by unit, tick by tick."""
        return find_rows(self.runs, columns, self.filters)

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """The same one by one. Memory holds a row group."""
        found = self.find(columns)
        for piece in found.pieces:
            for batch in found.read(piece).combine_chunks().to_batches():
                yield from to_rows(batch)

    def count_left_out(self, tally: Tally) -> None:
        """Note how many committed rows the filters leave out, filter by filter."""
        left = sum(shard.rows for run in self.runs for shard in run.shards)
        passed: Filters = {}
        for reason, name in ((Reason.SUPERSEDED, None), *((r, n) for n, r in _REASONS.items() if n in self.filters)):
            if name is not None:
                passed = cast(Filters, {**passed, **self._with(name)})
            there = find_rows(self.runs, ["tick"], passed).total
            tally.left_out[reason] += left - there
            left = there

    def _with(self, name: str) -> dict[str, Any]:
        """A filter, and whose grades or credit it looks at."""
        needs = {"graded": "grader_id", "min_credit": "credit_id"}.get(name)
        given = cast(dict[str, Any], self.filters)
        return {key: given[key] for key in (name, needs) if key in given}
