"""A run as a report tells it: its evidence, how far it is, and the numbers of its groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.status import RunStatus, read_status
from rollouts.report.episode_rows import EpisodeRows
from rollouts.report.judgements import Judge, Judgements, no_judgements
from rollouts.report.measured import MeasuredGroup, measure_groups
from rollouts.run.run_folder import RunFolder

Evidence = Callable[[CommittedRun], Mapping[str, Any]]
"""The manifest of a run, from its file where that is up to date, else made anew."""


@dataclass(frozen=True)
class ReportedRun:
    """`groups` stand in the order of the manifest's results."""

    run: CommittedRun
    manifest: Mapping[str, Any]
    status: RunStatus
    rows: EpisodeRows
    groups: tuple[MeasuredGroup, ...]
    judgements: Judgements

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])

    @property
    def grading(self) -> Mapping[str, Any]:
        return self.manifest.get("grading") or {}

    @property
    def graders(self) -> Sequence[Mapping[str, Any]]:
        """The manifest's, a line each."""
        found: Sequence[Mapping[str, Any]] = self.grading.get("graders", ())
        return found

    @property
    def credit_id(self) -> str | None:
        return shown_credit(self.grading)

    def metric(self, scenario: str) -> Mapping[str, str]:
        """Its `name` and `unit`."""
        metric: Mapping[str, str] = self.manifest["scenarios"][scenario]["metric"]
        return metric


def read_run(folder: RunFolder, evidence: Evidence, judge: Judge = no_judgements) -> ReportedRun:
    """Errors: `UsageError` where there is no run; `StorageError`."""
    run = CommittedRun.open(folder)
    manifest = evidence(run)
    rows = EpisodeRows(folder, shown_credit(manifest.get("grading") or {}))
    return ReportedRun(run, manifest, read_status(folder), rows, measure_groups(run, rows), judge(run))


def shown_credit(grading: Mapping[str, Any]) -> str | None:
    """Of several credits the first that comes from a model's grades, else the first; None where there is none."""
    credits: Sequence[Mapping[str, Any]] = [credit for credit in grading.get("credits", ()) if credit["rows"]]
    chosen = next((credit for credit in credits if credit["source"] == "llm"), credits[0] if credits else None)
    return None if chosen is None else str(chosen["credit_id"])
