"""The numbers: aggregates, percentiles, agreement with the teacher, Brier. Pure, no files.

Nothing here depends on the order of rows or on how they were cut into batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rollouts.calibration import Bools, Calibration, CalibrationTally, Floats, Ints

AGREEMENT_NOTE = (
    "Rubric agreement is not accuracy: the game has no gold label. It says how often, and how confidently, "
    "the policy does what the named rule prescribes."
)

EXACT = "exact"
EXACT_NOTE = "As if every reply that was not, character for character, what was asked for had been out of schema."


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Spread of a metric over episodes; `sd` is the population's. No episodes: all None and n 0."""

    mean: float | None
    sd: float | None
    min: float | None
    max: float | None
    n_episodes: int


def aggregate(values: Iterable[float]) -> Aggregate:
    """Sums are exact (`math.fsum`). A value that is not finite is left out, and not in `n_episodes`."""
    known = [float(value) for value in values if math.isfinite(value)]
    if not known:
        return Aggregate(None, None, None, None, 0)
    mean = math.fsum(known) / len(known)
    variance = math.fsum((value - mean) ** 2 for value in known) / len(known)
    return Aggregate(mean, math.sqrt(variance), min(known), max(known), len(known))


def percentile(values: Iterable[float | None], q: float) -> float | None:
    """The `q`-th percentile (0-100, linear interpolation). None and non-finite values are left out; nothing: None."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(np.percentile(known, q)) if known else None


class ExactSum:
    """A running sum of finite floats without rounding error, so that no order of the terms shows.

    Shewchuk, "Adaptive Precision Floating-Point Arithmetic" (1997): the partials do not overlap.
    """

    def __init__(self) -> None:
        self._partials: list[float] = []

    def add(self, values: Iterable[float]) -> None:
        for value in values:
            self._add_one(value)

    def _add_one(self, term: float) -> None:
        kept = []
        for partial in self._partials:
            large, small = (term, partial) if abs(term) >= abs(partial) else (partial, term)
            term = large + small
            if rest := small - (term - large):
                kept.append(rest)
        self._partials = [*kept, term]

    @property
    def value(self) -> float:
        """The sum, rounded once."""
        return math.fsum(self._partials)


def brier_scores(probabilities: Floats, truth: Ints) -> Floats:
    """Brier score of each row on the 0-2 scale: the sum over options of (p - onehot(truth))².

    `probabilities` is (n, k); `truth` (n,) holds indices of options. Brier (1950), in its original form.
    """
    wanted = np.zeros_like(probabilities)
    wanted[np.arange(len(truth)), truth] = 1.0
    scores: Floats = ((probabilities - wanted) ** 2).sum(axis=1)
    return scores


@dataclass(frozen=True, slots=True)
class DecisionColumns:
    """A batch of n decisions over the same k options, as columns.

    asked, out_of_schema: (n,). own, teacher: (n,) indices of options, -1 where there is none.
    named: (n, k), whether the policy gave a probability; probabilities: (n, k), ignored where not named.
    """

    asked: Bools
    out_of_schema: Bools
    own: Ints
    teacher: Ints
    named: Bools
    probabilities: Floats


def encode_actions(actions: Sequence[str | None], options: Sequence[str]) -> Ints:
    """Index of each action in `options`, character for character; -1 for None and for what is no option."""
    index = {option: i for i, option in enumerate(options)}
    return np.array([-1 if action is None else index.get(action, -1) for action in actions], np.int64)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a policy's own answers agree with the teacher's, over `n` asked decisions.

    `agreement` is over n rows; `brier` (0-2 scale) and `ece` over the `n_usable` of them with valid probabilities.
    None where no row could be used.
    """

    n: int
    agreement: float | None
    brier: float | None
    ece: float | None
    n_usable: int
    note: str = AGREEMENT_NOTE

    @property
    def agreed(self) -> int:
        """How many of the n agree."""
        return round((self.agreement or 0.0) * self.n)


class AgreementTally:
    """Agreement, Brier and ECE of one (scenario, rubric, policy), fed batch by batch.

    Counted are the decisions for which the policy was asked and the teacher has an action. An answer out of
    schema never agrees. A row is usable when it names an option and all its values are finite and in [0, 1]; an
    option that it does not name counts 0, nothing is renormalised. An out-of-schema row that is usable enters
    Brier as any other, and ECE with its highest probability, as not correct.
    """

    def __init__(self) -> None:
        self._n = 0
        self._agreed = 0
        self._n_usable = 0
        self._brier = ExactSum()
        self._calibration = CalibrationTally()

    def add(self, rows: DecisionColumns) -> None:
        counted = rows.asked & (rows.teacher >= 0)
        answered = ~rows.out_of_schema & (rows.own >= 0)
        agreed = answered & (rows.own == rows.teacher)
        self._n += int(counted.sum())
        self._agreed += int((counted & agreed).sum())
        usable = counted & usable_rows(rows)
        if usable.any():
            self._add_usable(_filled(rows)[usable], rows.own[usable], rows.teacher[usable], answered[usable])

    def _add_usable(self, probabilities: Floats, own: Ints, teacher: Ints, answered: Bools) -> None:
        self._n_usable += len(teacher)
        self._brier.add(brier_scores(probabilities, teacher).tolist())
        chosen = probabilities[np.arange(len(own)), np.maximum(own, 0)]
        confidence = np.where(answered, chosen, probabilities.max(axis=1))
        self._calibration.add(confidence, answered & (own == teacher))

    def calibration(self) -> Calibration:
        """The bins that the result's ECE is of."""
        return self._calibration.equal_mass()

    def result(self) -> Agreement:
        return Agreement(
            n=self._n,
            agreement=self._agreed / self._n if self._n else None,
            brier=self._brier.value / self._n_usable if self._n_usable else None,
            ece=self.calibration().ece,
            n_usable=self._n_usable,
        )


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """The same decisions if nothing but exact replies had been accepted, over `n` asked ones."""

    n: int
    n_out_of_schema: int
    agreement: float | None
    note: str = EXACT_NOTE


class ExactTally:
    """Counts the decisions of a policy that reads a model's reply by a written rule, fed batch by batch.

    A reply is exact where the rule is `exact`; one without a rule could not be read at all.
    """

    def __init__(self) -> None:
        self._n = 0
        self._exact = 0
        self._judged = 0
        self._agreed = 0
        self._any_rule = False

    def add(self, rows: DecisionColumns, parse_rules: Sequence[str | None]) -> None:
        self._any_rule = self._any_rule or any(rule is not None for rule in parse_rules)
        exact = np.array([rule == EXACT for rule in parse_rules], np.bool_) & ~rows.out_of_schema & rows.asked
        judged = rows.asked & (rows.teacher >= 0)
        self._n += int(rows.asked.sum())
        self._exact += int(exact.sum())
        self._judged += int(judged.sum())
        self._agreed += int((exact & judged & (rows.own == rows.teacher)).sum())

    def result(self) -> ExactMatch | None:
        """None where no reply was read by a rule."""
        if not self._any_rule:
            return None
        return ExactMatch(self._n, self._n - self._exact, self._agreed / self._judged if self._judged else None)


def usable_rows(rows: DecisionColumns) -> Bools:
    """(n,): the row names at least one option, and every value that it names is finite and in [0, 1]."""
    with np.errstate(invalid="ignore"):
        valid = (rows.probabilities >= 0.0) & (rows.probabilities <= 1.0)
    return np.asarray(rows.named.any(axis=1) & (valid | ~rows.named).all(axis=1))


def _filled(rows: DecisionColumns) -> Floats:
    return np.where(rows.named, rows.probabilities, 0.0)
