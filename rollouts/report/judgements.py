"""What is known of single episodes beside their rows: verdicts and summaries. Whoever judged hands them in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rollouts.evidence.committed_run import CommittedRun
from rollouts.report.grid import Table


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a grade in [-1, 1], its weight, and what it adds to R; None where it is absent."""

    name: str
    value: float | None
    weight: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The newest grading of an episode by one grader, one a repeat. `r` and `axes` are absent where it is ungraded."""

    grader_id: str
    source: str
    model: str | None
    repeat: int
    status: str
    cause: str | None
    detail: str | None
    label: str | None
    reason: str | None
    r: float | None
    axes: tuple[Axis, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The entry of a span of `decisions` equal decisions from `first_tick` on; `score` is 0-10."""

    first_tick: int
    decisions: int
    tool_call: str
    summary: str
    score: float | None
    status: str
    cause: str | None


@dataclass(frozen=True)
class Judgements:
    """By episode id. `summaries` are those of one summarizer, read for the episodes that are asked for. The judge card,
    as people read it, is in `card_tables` and `card_lines`."""

    verdicts: Mapping[str, Sequence[Verdict]] = field(default_factory=dict)
    summarizer_id: str | None = None
    summaries: Callable[[Collection[str]], Mapping[str, Sequence[Summary]]] = lambda _episodes: {}
    card_tables: Sequence[Table] = ()
    card_lines: Sequence[str] = ()


Judge = Callable[[CommittedRun], Judgements]


def no_judgements(_run: CommittedRun) -> Judgements:
    return Judgements()
