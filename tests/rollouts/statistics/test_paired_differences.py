"""Paired differences by hand."""

from __future__ import annotations

import math

import pytest

from rollouts.statistics.estimates import Interval
from rollouts.statistics.paired import Column, difference, minimum_detectable

T_975_OF_3, T_800_OF_3 = 3.182446, 0.978472
"""Percentiles of Student's t with 3 degrees of freedom, as tables have them."""


def test_a_mean_difference_and_what_it_is_made_of() -> None:
    found = difference(Column.values([1, 2, 3, 4]), Column.values([2, 4, 6, 8]))
    assert (found.first.value, found.second.value, found.mean.value) == (2.5, 5.0, 2.5)
    assert (found.mean.n, found.mean.unit, found.differing.value) == (4, "pair", 1.0)


def test_the_permutation_test_is_exact_for_few_pairs() -> None:
    """Four pairs that all differ one way: of 16 ways to swap two are as far out, so p is 1/8."""
    found = difference(Column.values([0, 0, 0, 0]), Column.values([1, 2, 3, 4]))
    assert (found.p_value, found.significant) == (0.125, False)


def test_a_p_value_counts_the_swaps_that_are_as_far_out() -> None:
    """Differences 3, 1 and -1: sums over all signs are ±5, ±3 twice, ±1: |sum| >= 3 in 6 of 8."""
    assert difference(Column.values([0, 0, 0]), Column.values([3, 1, -1])).p_value == pytest.approx(6 / 8)


def test_the_minimum_detectable_difference() -> None:
    """1, 2, 3, 4: sd √(5/3), so (3.182 + 0.978) · √(5/3) / 2."""
    expected = (T_975_OF_3 + T_800_OF_3) * math.sqrt(5 / 3) / 2
    assert minimum_detectable([1, 2, 3, 4]) == pytest.approx(expected, rel=1e-5)
    assert minimum_detectable([1]) is None
    assert minimum_detectable([2, 2, 2]) is None


def test_a_column_with_itself() -> None:
    """No difference, no made-up certainty: the interval is undefined, and at most a third of pairs may differ."""
    column = Column.values([1, 5, 9, 2, 4, 4, 7, 3])
    found = difference(column, column)
    assert (found.mean.value, found.mean.interval, found.p_value, found.significant) == (0.0, None, 1.0, False)
    assert found.mean.undefined == "undefined: all 8 pairs are equal"
    z2 = 1.959963984540054**2
    assert found.differing.interval == Interval(0.0, pytest.approx((z2 / 8) / (1 + z2 / 8)), 8, "pair")


def test_shares_are_compared_over_the_decisions_of_pairs() -> None:
    """10 of 100 and 30 of 40 agreed; then 20 of 40 and 60 of 60: 40/140 and 80/100. The third pair says nothing."""
    first, second = Column.ratios([10, 30, 5], [100, 40, 5]), Column.ratios([20, 60, 0], [40, 60, 0])
    found = difference(first, second)
    assert found.mean.value == pytest.approx(80 / 100 - 40 / 140)
    assert found.mean.n == 2
    drawn = (60 / 60 - 30 / 40, 20 / 40 - 10 / 100, 80 / 100 - 40 / 140)  # the second twice, the first twice, both
    assert found.mean.interval == Interval(pytest.approx(min(drawn)), pytest.approx(max(drawn)), 2, "pair")


def test_a_missing_value_leaves_its_pair_out() -> None:
    found = difference(Column.values([1, None, math.nan, 4]), Column.values([2, 3, 4, 8]))
    assert (found.mean.n, found.mean.value) == (2, 2.5)


def test_one_pair_has_a_difference_and_nothing_else() -> None:
    found = difference(Column.values([1]), Column.values([4]))
    assert (found.mean.value, found.mean.interval, found.p_value, found.detectable) == (3.0, None, None, None)
