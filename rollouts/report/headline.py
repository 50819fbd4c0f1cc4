"""The table at the top: a line a group, each number with its interval and what it is of.

Means are over episodes, shares of decisions are drawn episode by episode; see `rollouts.statistics.estimates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.evidence.episode_numbers import EpisodeNumbers
from rollouts.evidence.table import is_self_check
from rollouts.metrics import percentile
from rollouts.report.judgements import Verdict
from rollouts.report.measured import MeasuredGroup
from rollouts.report.reported_run import ReportedRun
from rollouts.statistics.estimates import Estimate, mean, ratio, share

HEADINGS = (
    *("rubric", "policy", "mean [95 %]", "sd", "episodes", "agreement [95 %]", "Brier [95 %]", "ECE"),
    *("out of schema", "latency p50 / p95", "decisions/s"),
)
NUMBERS_FROM = 2
INTERVALS = (
    "Intervals: 95 %, over episodes and never over decisions: bootstrap (percentile, 10,000 draws), and Wilson's where "
    "the metric is a share of episodes. Undefined with one episode, and where all are equal."
)
_SHARE = "share"
_NONE = "-"


@dataclass(frozen=True)
class Line:
    """One group of a run. `agreement` and `brier` are None without a teacher; the ECE has no interval. `grades`:
    grader id → R and its axes, see `grade_estimates`."""

    run: ReportedRun
    group: MeasuredGroup
    metric: Estimate
    sd: float | None
    coverage: Mapping[str, Any]
    agreement: Estimate | None
    brier: Estimate | None
    ece: float | None
    out_of_schema: Estimate
    n_out_of_schema: int
    n_decisions: int
    self_check: bool
    grades: Mapping[str, Mapping[str, Estimate]]

    @property
    def cells(self) -> tuple[str, ...]:
        """HEADINGS."""
        facts, coverage = self.group.facts, self.coverage
        done, planned = coverage["completed"], coverage["planned"]
        mark = "*" if self.self_check and self.agreement else ""
        return (
            facts.rubric,
            facts.policy,
            self.metric.told(),
            _number(self.sd),
            f"{done:,}" if done == planned else f"{done:,} of {planned:,}",
            (self.agreement.told(3) if self.agreement else _NONE) + mark,
            self.brier.told(3) if self.brier else _NONE,
            _number(self.ece, 3),
            self._out_of_schema(),
            self._latency(),
            _number(coverage["decisions_per_s_of_play"], 0),
        )

    def _out_of_schema(self) -> str:
        counts = f"{self.n_out_of_schema:,} of {self.n_decisions:,}"
        return f"{counts}: {self.out_of_schema.told(3)}" if self.n_out_of_schema else counts

    def _latency(self) -> str:
        times = [percentile(self.group.latency_ms.tolist(), q) for q in (50, 95)]
        return _NONE if None in times else " / ".join(f"{value:,.0f}" for value in times) + " ms"


def lines(run: ReportedRun) -> list[Line]:
    """The run's groups, in the plan's order: nothing is ranked."""
    blocks, coverages = run.manifest["results"], run.manifest["coverage"]["groups"]
    return [_line(run, *found) for found in zip(run.groups, blocks, coverages, strict=True)]


def _line(run: ReportedRun, group: MeasuredGroup, block: Mapping[str, Any], coverage: Mapping[str, Any]) -> Line:
    facts, done = group.facts, group.completed
    agreement = block.get("rubric_agreement")
    unit = run.metric(facts.scenario)["unit"]
    steps = [episode.row.steps for episode in done]
    return Line(
        run=run,
        group=group,
        metric=metric_estimate(done, unit),
        sd=block[f"{facts.metric_name}_aggregate"]["sd"],
        coverage=coverage,
        agreement=None if agreement is None else agreement_estimate(done),
        brier=None if agreement is None or agreement["brier"] is None else brier_estimate(done),
        ece=None if agreement is None else agreement["ece"],
        out_of_schema=ratio([episode.row.n_out_of_schema for episode in done], steps),
        n_out_of_schema=block["n_out_of_schema"],
        n_decisions=block["n_decisions"],
        self_check=is_self_check(block),
        grades={grader["grader_id"]: _grades(run, done, grader["grader_id"]) for grader in run.graders},
    )


def _grades(run: ReportedRun, episodes: Iterable[EpisodeNumbers], grader_id: str) -> dict[str, Estimate]:
    said = [run.judgements.verdicts.get(episode.row.episode_id, ()) for episode in episodes]
    return grade_estimates([[verdict for verdict in of if verdict.grader_id == grader_id] for of in said])


def metric_estimate(episodes: Iterable[EpisodeNumbers], unit: str) -> Estimate:
    """The mean over episodes; a share of them where the unit is one (each is 0 or 1)."""
    values = [value for episode in episodes if (value := finite_metric(episode)) is not None]
    if unit == _SHARE and all(value in (0, 1) for value in values):
        return share(int(sum(values)), len(values), "episode")
    return mean(values)


def finite_metric(episode: EpisodeNumbers) -> float | None:
    value = episode.row.metric
    return value if value is not None and abs(value) < float("inf") else None


def agreement_estimate(episodes: Sequence[EpisodeNumbers]) -> Estimate:
    """Of the decisions for which the policy was asked."""
    found = [episode.agreement for episode in episodes]
    return ratio([agreement.agreed for agreement in found], [agreement.n for agreement in found])


def brier_estimate(episodes: Sequence[EpisodeNumbers]) -> Estimate:
    """Over the decisions with usable probabilities, on the 0-2 scale."""
    found = [episode.agreement for episode in episodes]
    return ratio([(a.brier or 0.0) * a.n_usable for a in found], [a.n_usable for a in found])


GRADES = ("R", "goal", "process", "satisfaction")


def grade_estimates(episodes: Sequence[Sequence[Verdict]]) -> dict[str, Estimate]:
    """GRADES → its mean over gradings, drawn episode by episode. `episodes`: what one grader said of each."""
    columns = [list(_values(verdicts)) for verdicts in episodes]
    return {
        name: ratio(
            [sum(v for values in column if (v := values[name]) is not None) for column in columns],
            [sum(values[name] is not None for values in column) for column in columns],
        )
        for name in GRADES
    }


def _values(verdicts: Iterable[Verdict]) -> Iterator[dict[str, float | None]]:
    for verdict in verdicts:
        axes = {axis.name: axis.value for axis in verdict.axes}
        yield {"R": verdict.r, **{name: axes.get(name) for name in GRADES[1:]}}


def _number(value: float | None, digits: int = 2) -> str:
    return _NONE if value is None else f"{value:,.{digits}f}"
