"""Calibration error: values by hand, and what must hold for any rows (cases C3 and C4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.calibration import CalibrationTally

Rows = list[tuple[float, bool]]
LEVELS = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0])
ROWS = st.lists(st.tuples(st.one_of(LEVELS, st.floats(0, 1)), st.booleans()), max_size=80)


def tally(rows: Rows) -> CalibrationTally:
    made = CalibrationTally()
    made.add(np.array([p for p, _ in rows], np.float64), np.array([right for _, right in rows], np.bool_))
    return made


def sizes(of: object) -> list[int]:
    return [b.n for b in of.bins]  # type: ignore[attr-defined]


def test_c3_confidence_exactly_0_or_1_is_in_a_bin() -> None:
    rows = [(0.95, True), (1.0, False)]
    assert tally(rows).equal_width(10).ece == pytest.approx(0.475)
    assert sizes(tally(rows).equal_width(10)) == [2]
    assert tally(rows).equal_mass(1).ece == pytest.approx(0.475)
    assert tally(rows).equal_mass(2).ece == pytest.approx(0.525)
    nothing_expected = tally([(0.0, True)])
    assert nothing_expected.equal_width(10).ece == nothing_expected.equal_mass().ece == 1.0
    assert sizes(nothing_expected.equal_width(10)) == [1]


def test_c4_fewer_rows_than_bins() -> None:
    calibration = tally([(0.9, True), (0.6, False), (0.3, False)]).equal_mass(15)
    assert calibration.ece == pytest.approx(1 / 3)
    assert sizes(calibration) == [1, 1, 1]


def test_c4_bins_of_unequal_size_are_weighted() -> None:
    calibration = tally([(0.1, False), (0.2, False), (0.3, False), (0.8, True), (0.9, False)]).equal_mass(2)
    assert calibration.ece == pytest.approx(0.26)
    assert sorted(sizes(calibration)) == [2, 3]


def test_c4_one_row_and_no_rows() -> None:
    assert tally([(0.25, True)]).equal_mass().ece == 0.75
    for nothing in (CalibrationTally(), tally([])):
        for calibration in (nothing.equal_mass(), nothing.equal_width(10)):
            assert (calibration.ece, calibration.n, calibration.bins) == (None, 0, ())


def test_a_tie_that_a_cut_divides_is_shared() -> None:
    """4 rows of 0.5, 2 of them right, in 2 bins: each bin holds 2 rows that are right by half, so the error is 0.

    Cut in the order given, the first bin would be all right and the second all wrong: 0.5.
    """
    rows = [(0.5, True), (0.5, True), (0.5, False), (0.5, False)]
    assert tally(rows).equal_mass(2).ece == 0.0


def test_a_tie_over_a_cut_with_rows_on_both_sides() -> None:
    """Sorted: 0.2 wrong, 3 x 0.6 of which 1 right (1/3 each), in 2 bins: (0.2, 0.6) and (0.6, 0.6).

    |1/3 - 0.8| / 4 + |2/3 - 1.2| / 4 = (7/15 + 8/15) / 4 = 0.25.
    """
    rows = [(0.6, False), (0.2, False), (0.6, True), (0.6, False)]
    assert tally(rows).equal_mass(2).ece == pytest.approx(0.25)


def test_a_thousand_rows_in_fifteen_bins_agree_with_the_definition() -> None:
    """Distinct confidences: the definition is then 15 plain slices."""
    rng = np.random.default_rng(7)
    confidence = np.sort(rng.random(1_000))
    correct = rng.random(1_000) < 0.5
    slices = zip(np.array_split(confidence, 15), np.array_split(correct, 15), strict=True)
    expected = sum(len(p) / 1_000 * abs(p.mean() - right.mean()) for p, right in slices)
    order = rng.permutation(1_000)
    made = CalibrationTally()
    made.add(confidence[order], correct[order])
    assert made.equal_mass().ece == pytest.approx(expected, abs=1e-12)


@given(ROWS, st.integers(1, 20))
def test_bin_counts_sum_to_the_rows_and_errors_stay_in_range(rows: Rows, bins: int) -> None:
    for calibration in (tally(rows).equal_mass(bins), tally(rows).equal_width(bins)):
        assert sum(sizes(calibration)) == calibration.n == len(rows)
        assert all(b.n > 0 for b in calibration.bins)
        assert sum(b.correct for b in calibration.bins) == pytest.approx(sum(right for _, right in rows))
        assert calibration.ece is None if not rows else -1e-9 <= float(calibration.ece or 0) <= 1 + 1e-9
    assert len(tally(rows).equal_mass(bins).bins) == min(bins, len(rows))


@given(ROWS.flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))), st.integers(0, 80))
def test_neither_order_nor_batches_matter(both: tuple[Rows, Rows], cut: int) -> None:
    rows, shuffled = both
    batched = tally(shuffled[:cut])
    batched.add(
        np.array([p for p, _ in shuffled[cut:]], np.float64), np.array([r for _, r in shuffled[cut:]], np.bool_)
    )
    assert batched.equal_mass() == tally(rows).equal_mass()
    assert batched.equal_width(10) == tally(rows).equal_width(10)


def test_memory_is_that_of_the_distinct_values() -> None:
    """A million rows of three values, in batches that force compaction on the way."""
    made = CalibrationTally()
    for _ in range(10):
        made.add(np.tile([0.2, 0.5, 1.0], 40_000), np.tile([False, True, True], 40_000))
    assert made.equal_mass().n == 1_200_000
    assert sum(len(values) for values, _, _ in made._batches) == 3
