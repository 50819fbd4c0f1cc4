"""Aggregates, percentiles, agreement and Brier: values by hand, and what must hold for any rows (case C6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.metrics import (
    AGREEMENT_NOTE,
    Agreement,
    AgreementTally,
    DecisionColumns,
    ExactSum,
    ExactTally,
    aggregate,
    encode_actions,
    percentile,
)

OPTIONS = ("attack", "turn left", "turn right")


@dataclass(frozen=True)
class Row:
    """One decision as a policy and the loop would leave it."""

    own: str | None
    teacher: str | None
    probabilities: Mapping[str, float]
    out_of_schema: bool = False
    asked: bool = True


def columns(rows: Sequence[Row], options: tuple[str, ...] = OPTIONS) -> DecisionColumns:
    return DecisionColumns(
        asked=np.array([r.asked for r in rows], np.bool_),
        out_of_schema=np.array([r.out_of_schema for r in rows], np.bool_),
        own=encode_actions([r.own for r in rows], options),
        teacher=encode_actions([r.teacher for r in rows], options),
        named=np.array([[o in r.probabilities for o in options] for r in rows], np.bool_).reshape(-1, len(options)),
        probabilities=np.array([[r.probabilities.get(o, 0.0) for o in options] for r in rows]).reshape(
            -1, len(options)
        ),
    )


def agreement(*rows: Row) -> Agreement:
    tally = AgreementTally()
    if rows:
        tally.add(columns(rows))
    return tally.result()


def sure(choice: str) -> dict[str, float]:
    return {option: float(option == choice) for option in OPTIONS}


def test_aggregate_is_of_the_population() -> None:
    """The published kills of the rule oracle: mean 11.125, sd 2.03 (population)."""
    made = aggregate([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (made.mean, made.sd, made.min, made.max, made.n_episodes) == (5.0, 2.0, 2.0, 9.0, 8)


def test_aggregate_of_nothing_and_of_one() -> None:
    assert aggregate([]) == aggregate(iter([]))
    assert (aggregate([]).mean, aggregate([]).sd, aggregate([]).n_episodes) == (None, None, 0)
    assert (aggregate([3.5]).mean, aggregate([3.5]).sd, aggregate([3.5]).n_episodes) == (3.5, 0.0, 1)


def test_aggregate_leaves_out_what_is_no_number_and_says_so_in_n() -> None:
    made = aggregate([1.0, math.nan, 3.0, math.inf])
    assert (made.mean, made.max, made.n_episodes) == (2.0, 3.0, 2)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1).flatmap(lambda v: st.tuples(st.just(v), st.permutations(v))))
def test_aggregate_is_independent_of_order(both: tuple[list[float], list[float]]) -> None:
    assert aggregate(both[0]) == aggregate(both[1])


def test_percentile_interpolates_and_skips_none() -> None:
    assert percentile([10.0, None, 20.0, 30.0, 40.0], 50) == 25.0
    assert percentile([0.0, 100.0], 95) == pytest.approx(95.0)
    assert percentile([0.0, None], 50) == 0.0
    assert percentile([None, math.nan], 50) is None
    assert percentile([], 95) is None


@given(st.lists(st.floats(-1e300, 1e300), max_size=60))
def test_the_exact_sum_is_exact(values: list[float]) -> None:
    made = ExactSum()
    made.add(values[: len(values) // 2])
    made.add(values[len(values) // 2 :])
    assert Fraction(made.value) == Fraction(float(sum(map(Fraction, values))))


def test_a_perfect_policy() -> None:
    """What the oracle must come out at: 1, 0, 0."""
    rows = [Row(a, a, sure(a)) for a in ("attack", "turn left", "turn right", "attack")]
    assert agreement(*rows) == Agreement(4, 1.0, 0.0, 0.0, 4, AGREEMENT_NOTE)


def test_agreement_by_hand() -> None:
    """Two of three agree. Brier: (0.26 + 0.98 + 0.06) / 3. ECE: rows of 0.5, 0.6 and 0.8 in a bin each."""
    rows = [
        Row("attack", "attack", {"attack": 0.6, "turn left": 0.3, "turn right": 0.1}),
        Row("turn left", "attack", {"attack": 0.3, "turn left": 0.5, "turn right": 0.2}),
        Row("turn right", "turn right", {"attack": 0.1, "turn left": 0.1, "turn right": 0.8}),
    ]
    made = agreement(*rows)
    brier = (0.4**2 + 0.3**2 + 0.1**2) + (0.7**2 + 0.5**2 + 0.2**2) + (0.1**2 + 0.1**2 + 0.2**2)
    assert (made.n, made.n_usable) == (3, 3)
    assert made.agreement == pytest.approx(2 / 3)
    assert made.brier == pytest.approx(brier / 3)
    assert made.ece == pytest.approx((0.4 + 0.5 + 0.2) / 3)


def test_out_of_schema_never_agrees_not_even_through_its_probabilities() -> None:
    """The answer equals the teacher's only in its probabilities, or word for word but too late."""
    for own in ("Attack", None, "attack"):
        made = agreement(Row(own, "attack", sure("attack"), out_of_schema=True))
        assert (made.n, made.agreement, made.n_usable) == (1, 0.0, 1)
        assert made.ece == 1.0


def test_an_out_of_schema_row_counts_with_its_highest_probability() -> None:
    row = Row("fire!", "attack", {"attack": 0.2, "turn left": 0.7}, out_of_schema=True)
    assert agreement(row).ece == pytest.approx(0.7)
    assert agreement(row).brier == pytest.approx(0.8**2 + 0.7**2)


def test_rows_where_the_policy_was_not_asked_count_nowhere() -> None:
    asked = Row("attack", "turn left", sure("attack"))
    unasked = Row("attack", "attack", sure("attack"), asked=False)
    assert agreement(asked, unasked, unasked) == agreement(asked)
    assert agreement(asked, unasked).n == 1
    assert agreement(unasked) == agreement()


def test_nothing_gives_nulls_and_n_0() -> None:
    assert agreement() == Agreement(0, None, None, None, 0)


def test_rows_without_a_teacher_count_nowhere() -> None:
    assert agreement(Row("attack", None, sure("attack"))) == agreement()


def test_c6_zero_on_the_true_action_is_2() -> None:
    tally = AgreementTally()
    options = ("a", "b", "c", "d")
    row = Row("a", "b", {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0})
    tally.add(columns([row], options))
    assert tally.result().brier == 2.0


def test_c6_one_row_of_nan_among_nine_good_ones() -> None:
    good = [Row("attack", "attack", sure("attack"))] * 9
    bad = Row("attack", "attack", {"attack": math.nan, "turn left": 0.0, "turn right": 0.0})
    made = agreement(*good[:4], bad, *good[4:])
    assert (made.n, made.n_usable) == (10, 9)
    assert (made.agreement, made.brier, made.ece) == (1.0, 0.0, 0.0)


def test_c6_rows_without_probabilities_count_for_agreement_alone() -> None:
    with_them = [Row("attack", "attack", sure("attack"))] * 5
    without = [Row("turn left", "attack", {})] * 5
    made = agreement(*with_them, *without)
    assert (made.n, made.n_usable, made.agreement, made.brier) == (10, 5, 0.5, 0.0)
    assert agreement(*without) == Agreement(5, 0.0, None, None, 0)


@pytest.mark.parametrize(
    ("value", "usable"), [(-0.0, 1), (0.0, 1), (1.0, 1), (1.0000001, 0), (-1e-9, 0), (math.inf, 0), (math.nan, 0)]
)
def test_c6_what_is_a_probability(value: float, usable: int) -> None:
    made = agreement(Row("attack", "attack", {"attack": 1.0, "turn left": value}))
    assert (made.n, made.n_usable) == (1, usable)


def test_an_option_that_is_missing_counts_0_and_other_keys_are_ignored() -> None:
    """Nothing is renormalised: 0.6 alone is 0.4² for its own option, and 0 for the others."""
    made = agreement(Row("attack", "attack", {"attack": 0.6, "jump": 5.0}))
    assert made.brier == pytest.approx(0.4**2)
    assert made.ece == pytest.approx(0.4)
    assert agreement(Row("attack", "attack", {"jump": 0.5})).n_usable == 0


def test_the_own_choice_may_be_the_option_that_is_missing() -> None:
    """Its probability is 0; the choice is right: the calibration error is 1."""
    made = agreement(Row("attack", "attack", {"turn left": 0.6}))
    assert made.ece == 1.0
    assert made.brier == pytest.approx(1.0 + 0.6**2)


def test_actions_are_compared_character_for_character() -> None:
    assert encode_actions(["attack", "Attack", " attack", None, "turn right"], OPTIONS).tolist() == [0, -1, -1, -1, 2]


VALUES = st.one_of(st.sampled_from([0.0, 0.5, 1.0, math.nan, 1.5]), st.floats(0, 1))


def test_exact_match_counts_what_was_read_by_no_rule_but_the_exact_one() -> None:
    tally = ExactTally()
    rows = [
        Row("attack", "attack", {}),
        Row("attack", "attack", {}),
        Row("turn left", "attack", {}),
        Row(None, "attack", {}, True),
    ]
    tally.add(columns(rows), ["exact", "bare", "exact", None])
    found = tally.result()
    assert found is not None
    assert (found.n, found.n_out_of_schema, found.agreement) == (4, 2, 0.25)


def test_without_a_rule_there_is_no_exact_match() -> None:
    tally = ExactTally()
    tally.add(columns([Row("attack", "attack", {})]), [None])
    assert tally.result() is None


ANSWERS = st.builds(
    Row,
    own=st.sampled_from([*OPTIONS, "jump", None]),
    teacher=st.sampled_from([*OPTIONS, None]),
    probabilities=st.dictionaries(st.sampled_from([*OPTIONS, "jump"]), VALUES),
    asked=st.booleans(),
).map(lambda r: Row(r.own, r.teacher, r.probabilities, r.own not in OPTIONS, r.asked))


@given(st.lists(ANSWERS, max_size=40).flatmap(lambda v: st.tuples(st.just(v), st.permutations(v))), st.integers(0, 40))
def test_neither_order_nor_batches_matter(both: tuple[list[Row], list[Row]], cut: int) -> None:
    rows, shuffled = both
    whole, batched = AgreementTally(), AgreementTally()
    whole.add(columns(rows))
    batched.add(columns(shuffled[:cut]))
    batched.add(columns(shuffled[cut:]))
    assert batched.result() == whole.result()


@given(st.lists(ANSWERS, max_size=40))
def test_the_tally_agrees_with_the_rules_row_by_row(rows: list[Row]) -> None:
    """The rules once more, in plain Python, one row at a time."""
    counted = [r for r in rows if r.asked and r.teacher is not None]
    usable = [r for r in counted if _usable(r)]
    made = agreement(*rows)
    assert (made.n, made.n_usable) == (len(counted), len(usable))
    if counted:
        assert made.agreement == sum(r.own == r.teacher for r in counted) / len(counted)
    if usable:
        assert made.brier == pytest.approx(sum(map(_brier, usable)) / len(usable))
        assert made.ece is not None
        assert 0.0 <= made.ece <= 1.0


def _usable(row: Row) -> bool:
    named = [row.probabilities[o] for o in OPTIONS if o in row.probabilities]
    return bool(named) and all(math.isfinite(p) and 0 <= p <= 1 for p in named)


def _brier(row: Row) -> float:
    return sum((row.probabilities.get(o, 0.0) - (o == row.teacher)) ** 2 for o in OPTIONS)
