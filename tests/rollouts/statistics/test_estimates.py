"""Intervals by hand: what they come to, and when there is none."""

from __future__ import annotations

import math

import pytest

from rollouts.statistics.estimates import Interval, bootstrap_mean, bootstrap_ratio, mean, ratio, share, wilson

Z = 1.959963984540054
"""The 97.5th percentile of the normal distribution, as tables have it."""


def test_wilson_of_all_and_of_none() -> None:
    """With p = 1 the formula leaves 1 / (1 + z²/n) to 1, with p = 0 its mirror image."""
    low = 1 / (1 + Z**2 / 20)
    assert wilson(20, 20, "episode") == Interval(pytest.approx(low), pytest.approx(1.0), 20, "episode")
    assert wilson(0, 20, "episode") == Interval(pytest.approx(0.0), pytest.approx(1 - low), 20, "episode")
    assert low == pytest.approx(0.8389, abs=5e-5)


def test_wilson_of_a_share_between() -> None:
    """p = 0.3, n = 10: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)."""
    middle, whole = 0.3 + Z**2 / 20, 1 + Z**2 / 10
    half = Z * math.sqrt(0.3 * 0.7 / 10 + Z**2 / 400)
    found = wilson(3, 10, "pair")
    assert found is not None
    assert (found.low, found.high) == pytest.approx(((middle - half) / whole, (middle + half) / whole))


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_and_one_have_no_interval(n: int) -> None:
    assert wilson(n, n, "episode") is None
    assert bootstrap_mean([3.0] * n) is None
    assert mean([3.0] * n).undefined == f"undefined for {'0 episodes' if n == 0 else '1 episode'}"


def test_a_bootstrap_of_two_values_knows_only_three_means() -> None:
    """0 and 1: a quarter of the draws are 0, a half 0.5, a quarter 1, so 95 % reach from 0 to 1."""
    assert bootstrap_mean([0.0, 1.0]) == Interval(0.0, 1.0, 2, "episode")


def test_a_bootstrap_of_a_share_is_the_binomials() -> None:
    """50 of 100: the number of ones drawn is binomial(100, 0.5), whose 2.5th and 97.5th percentiles are 40 and 60."""
    found = bootstrap_mean([0.0, 1.0] * 50)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.40, 0.60), abs=0.0101)


def test_the_same_values_give_the_same_interval() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert bootstrap_mean(values) == bootstrap_mean(list(values))


def test_equal_values_have_no_interval_of_no_width() -> None:
    assert bootstrap_mean([2.5] * 8) is None
    assert mean([2.5] * 8).undefined == "undefined: all 8 episodes are equal"
    assert bootstrap_ratio([3, 6, 0.3], [10, 20, 1]) is None


def test_a_ratio_is_of_sums_and_leaves_out_what_has_nothing_below() -> None:
    """(1 + 9) / (10 + 10), not the mean of shares over three episodes, of which one has no decision."""
    found = ratio([1, 9, 0], [10, 10, 0])
    assert (found.value, found.n) == (0.5, 2)
    assert found.interval == Interval(pytest.approx(0.1), pytest.approx(0.9), 2, "episode")


def test_long_and_short_episodes_weigh_as_they_are_long() -> None:
    """90 of 100 and 0 of 10 decisions; drawn together they are 90 / 110, alone 0.9 and 0."""
    found = ratio([90, 0], [100, 10])
    assert found.value == pytest.approx(90 / 110)
    assert found.interval == Interval(pytest.approx(0.0), pytest.approx(0.9), 2, "episode")


def test_estimates_in_words_and_as_plain_values() -> None:
    assert share(20, 20, "episode").told() == "1.00 [0.84, 1.00]"
    assert mean([1.0]).told() == "1.00 [undefined]"
    assert mean([]).told() == "-"
    told = mean([3.0]).as_dict()
    assert (told["value"], told["low"], told["high"], told["n"], told["unit"]) == (3.0, None, None, 1, "episode")
    assert told["undefined"] == "undefined for 1 episode"
