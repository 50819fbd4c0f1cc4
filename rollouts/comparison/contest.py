"""Two policies on one scenario: their episodes paired by seed and index, and how far they differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.comparison.played import Better, Place, PlayedGroup, better
from rollouts.errors import UsageError
from rollouts.naming import counted
from rollouts.settings import unknown
from rollouts.statistics.paired import Difference, difference

FIRST, SECOND = "A", "B"
NOT_PLANNED = "not planned"
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Unpaired:
    """An episode that one side completed and the other did not, and why it did not."""

    place: Place
    there: str
    missing: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        seed, index = self.place
        return {"seed": seed, "episode_index": index, "in": self.there, "not_in": self.missing, "why": self.why}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure of both sides; `difference` is B less A."""

    name: str
    better: Better
    difference: Difference

    @property
    def gain(self) -> float | None:
        """How much better B is on the average; negative: worse."""
        value = self.difference.mean.value
        return None if value is None else self._signed(value)

    @property
    def gain_at_most(self) -> float | None:
        """The good end of the interval; the gain itself where all pairs gain the same; None below two pairs."""
        found = self.difference.mean
        if found.interval is None:
            return self.gain if found.n > 1 else None
        return max(self._signed(found.interval.low), self._signed(found.interval.high))

    def _signed(self, value: float) -> float:
        return value if self.better == "higher" else -value

    def as_dict(self) -> dict[str, Any]:
        return {"better": self.better, "significant": self.difference.significant, **self.difference.as_dict()}


@dataclass(frozen=True)
class Contest:
    """A against B. `pairs` are the episodes that both completed, in A's order; `measures` those that both have."""

    first: PlayedGroup
    second: PlayedGroup
    pairs: tuple[Place, ...]
    unpaired: tuple[Unpaired, ...]
    measures: tuple[Measured, ...]
    differing_settings: Mapping[str, tuple[Any, Any]]

    @property
    def title(self) -> str:
        return f"{self.first.facts.scenario}/{self.first.facts.rubric}"

    @property
    def metric(self) -> Measured | None:
        return next((found for found in self.measures if found.name == self.first.metric), None)

    def rows(self) -> Iterator[tuple[Place, float | None, float | None]]:
        """Pair by pair, the metric of A and of B."""
        for place in self.pairs:
            yield place, self.first.value(place), self.second.value(place)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "scenario": self.first.facts.scenario,
            "rubric": self.first.facts.rubric,
            "metric": self.first.metric,
            "unit": self.first.unit,
            FIRST: _side(self.first),
            SECOND: _side(self.second),
            "n_pairs": len(self.pairs),
            "unpaired": [found.as_dict() for found in self.unpaired],
            "differing_settings": {name: list(both) for name, both in self.differing_settings.items()},
            "pairs": [
                {"seed": seed, "episode_index": index, FIRST: a, SECOND: b, "difference": _less(b, a)}
                for (seed, index), a, b in self.rows()
            ],
            "measures": {found.name: found.as_dict() for found in self.measures},
        }


def contest(first: PlayedGroup, second: PlayedGroup) -> Contest:
    """Errors: `UsageError` where the metrics are not the same."""
    if first.metric != second.metric:
        raise UsageError(
            f"{first.name} and {second.name} have other metrics in {first.facts.scenario}: {first.metric} and "
            f"{second.metric}"
        )
    pairs = tuple(place for place in first.episodes if place in second.episodes)
    names = [name for name in first.measures if name in second.measures]
    return Contest(
        first=first,
        second=second,
        pairs=pairs,
        unpaired=(*_unpaired(first, second, FIRST, SECOND), *_unpaired(second, first, SECOND, FIRST)),
        measures=tuple(
            Measured(name, better(name), difference(first.column(name, pairs), second.column(name, pairs)))
            for name in names
        ),
        differing_settings={
            name: (value, second.settings[name])
            for name, value in first.settings.items()
            if value != second.settings[name]
        },
    )


def _unpaired(there: PlayedGroup, other: PlayedGroup, name: str, missing: str) -> Iterator[Unpaired]:
    for place in there.episodes:
        if place not in other.episodes:
            yield Unpaired(place, name, missing, other.absent.get(place, NOT_PLANNED))


def unpaired_lines(unpaired: Iterable[Unpaired]) -> Iterator[str]:
    """All of them, those with one reason together."""
    together: dict[tuple[str, str, str], list[Place]] = {}
    for found in unpaired:
        together.setdefault((found.there, found.missing, found.why), []).append(found.place)
    for (there, missing, why), places in together.items():
        named = ", ".join(str(seed) if index == 0 else f"{seed}/{index}" for seed, index in places)
        yield f"unpaired: {counted(len(places), 'episode')} in {there} alone, in {missing} {why}: seed {named}"


def _side(group: PlayedGroup) -> dict[str, Any]:
    calibration = group.calibration
    return {
        "name": group.name,
        "run_id": group.run_id,
        "policy": group.facts.policy,
        "completed": len(group.episodes),
        "planned": len(group.episodes) + len(group.absent),
        "ece": calibration.ece,
        "reliability": [
            {"n": b.n, "confidence": b.confidence / b.n, "accuracy": b.correct / b.n} for b in calibration.bins
        ],
    }


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


@dataclass(frozen=True, slots=True)
class Margin:
    """`--fail-if-worse`: how much worse B may be in a measure."""

    measure: str
    margin: float

    @classmethod
    def parse(cls, text: str) -> Margin:
        """`METRIC:MARGIN`. Errors: `UsageError`."""
        measure, _, said = text.rpartition(":")
        try:
            margin = float(said)
        except ValueError:
            margin = -1.0
        if not measure or not 0 <= margin < float("inf"):
            raise UsageError(f'--fail-if-worse "{text}": give METRIC:MARGIN, such as kills:1; a margin is 0 or above')
        return cls(measure, margin)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`worse`: B is shown to be worse than A by more than the margin; None: fewer than two pairs cannot show it."""

    title: str
    margin: Margin
    measured: Measured

    @property
    def worse(self) -> bool | None:
        most = self.measured.gain_at_most
        return None if most is None else most < -self.margin.margin

    @property
    def fails(self) -> bool:
        """What cannot be judged has not passed."""
        return self.worse is not False

    def __str__(self) -> str:
        found, by = self.measured.difference.mean, f"more than {self.margin.margin:g}"
        told = {
            True: f"B is worse than A by {by}",
            False: f"B is not shown to be worse than A by {by}",
            None: "cannot be judged",
        }[self.worse]
        return f"{self.title}, {self.measured.name}: {told}; B - A is {found.told(3, '+')}, {counted(found.n, 'pair')}"

    def as_dict(self) -> dict[str, Any]:
        where = {"where": self.title, "measure": self.measured.name, "margin": self.margin.margin}
        return {**where, "worse": self.worse, "fails": self.fails, "told": str(self)}


def judge(contests: Sequence[Contest], margin: Margin) -> list[Verdict]:
    """A verdict wherever the measure is; `R` alone is the only one's whose R is there.

    Errors: `UsageError` where no contest has it, or several R are there.
    """
    choices = list(dict.fromkeys(found.name for each in contests for found in each.measures))
    wanted = [name for name in choices if name == margin.measure or name.startswith(f"{margin.measure} (")]
    if len(wanted) != 1:
        raise unknown("--fail-if-worse", margin.measure, choices)
    return [
        Verdict(each.title, margin, found) for each in contests for found in each.measures if found.name == wanted[0]
    ]
