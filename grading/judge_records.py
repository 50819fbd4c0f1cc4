"""What a judge card is made of: the judges and outcomes that it is from, and the numbers that are on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from grading.grade import Grade
from rollouts.statistics.alpha import Alpha
from rollouts.statistics.estimates import LEVEL, Estimate

Grades = Mapping[tuple[str, int], Grade]
"""(episode id, repeat) → a grade."""
TAKEN_FOR_NOISE = 0.05
Sway = Literal["order", "length"]
SWAYS: Mapping[str, Sway] = {"reversed": "order", "padded": "length"}


@dataclass(frozen=True, slots=True)
class Judge:
    """One grader: what counts of its grades, and what of it is not the order and length of what it is shown."""

    grader_id: str
    source: str
    model: str | None
    presentation: str | None
    kin: str
    grades: Grades

    @property
    def upright(self) -> bool:
        """Shown everything as usual, not to be held against one that is."""
        return self.presentation not in SWAYS

    @property
    def firsts(self) -> dict[str, Grade]:
        """Episode id → its first graded repeat."""
        found: dict[str, Grade] = {}
        for episode_id, repeat in sorted(key for key, grade in self.grades.items() if grade.graded):
            found.setdefault(episode_id, self.grades[episode_id, repeat])
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended, whatever anybody thinks of it. `goal`: where the metric lies between random play, -1, and
    the oracle, +1; None where no baselines hold."""

    scenario: str
    metric: float
    goal: float | None


@dataclass(frozen=True, slots=True)
class Consistency:
    """A judge against itself, over the episodes with two or more graded repeats. `shift`: mean |ΔR| between the first
    repeat and the others; `labels_differ`: the share of those pairs with two labels; `differ`: with two labels, or R
    more than 0.1 apart."""

    shift: Estimate
    labels_differ: Estimate
    differ: Estimate
    alpha_r: Alpha
    alpha_label: Alpha


@dataclass(frozen=True, slots=True)
class Against:
    """An axis (or R) against the outcome of the same episodes of one scenario.

    `rank_correlation` is Spearman's with the metric, None where either is constant. Where the outcome has a place
    between the baselines: `error` is the mean distance to it, `constant_error` that of a judge who says the median
    outcome of every episode, and `better_by` how much smaller the axis' is, episode by episode.
    """

    scenario: str
    axis: str
    n: int
    rank_correlation: float | None
    error: Estimate | None
    constant_error: Estimate | None
    better_by: Estimate | None


@dataclass(frozen=True, slots=True)
class Labels:
    """The share of labels that are the outcome's, and of one label for all: the most frequent of the outcomes'."""

    scenario: str
    right: Estimate
    constant_right: Estimate


@dataclass(frozen=True, slots=True)
class JudgeNumbers:
    """One judge, shown things as its presentation says. `consistency` is None where nothing was graded twice."""

    grader_id: str
    source: str
    model: str | None
    presentation: str | None
    graded: int
    episodes: int
    consistency: Consistency | None
    against: tuple[Against, ...]
    labels: tuple[Labels, ...]


@dataclass(frozen=True, slots=True)
class Agreeing:
    """Several judges on the episodes that they share: alpha of R, of each axis and of labels, and how often two differ
    (two judges only)."""

    graders: tuple[str, ...]
    alphas: Mapping[str, Alpha]
    differ: Estimate | None


@dataclass(frozen=True, slots=True)
class Swayed:
    """One judge shown the same episodes in another order, or at another length.

    `differ`: the share with another label, or R more than 0.1 apart; `shift`: by how much R moves; `noise`: what
    differs between repeats of the same question, None where there are none. `swayed`: R moves in one direction (p at
    most 0.05), or the interval of `differ` lies above the noise (at least 5 %); None below two episodes.
    """

    by: Sway
    first: str
    second: str
    differ: Estimate
    shift: Estimate
    p_value: float | None
    noise: float | None

    @property
    def swayed(self) -> bool | None:
        if self.differ.interval is None or self.p_value is None:
            return None
        above = self.differ.interval.low > max(self.noise or 0.0, TAKEN_FOR_NOISE)
        return above or self.p_value <= 1 - LEVEL


@dataclass(frozen=True, slots=True)
class JudgeCard:
    """All judges of a run."""

    judges: tuple[JudgeNumbers, ...]
    agreements: tuple[Agreeing, ...]
    sways: tuple[Swayed, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        told: dict[str, Any] = _plain(self)
        for of, swayed in zip(told["sways"], self.sways, strict=True):
            of["swayed"] = swayed.swayed
        return told


def _plain(value: Any) -> Any:
    """Records as mappings of plain values, estimates with their words."""
    if isinstance(value, Estimate):
        return value.as_dict()
    if isinstance(value, Alpha):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(item) for item in value]
    fields = getattr(value, "__dataclass_fields__", None)
    return {name: _plain(getattr(value, name)) for name in fields} if fields else value
