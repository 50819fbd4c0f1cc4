"""Krippendorff's alpha by hand, and as the package of that name has it."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest

from rollouts.statistics.alpha import Alpha, alpha_interval, alpha_nominal

PUBLISHED = (
    (1, 1, None, 1), (2, 2, 3, 2), (3, 3, 3, 3), (3, 3, 3, 3), (2, 2, 2, 2), (1, 2, 3, 4),
    (4, 4, 4, 4), (1, 1, 2, 1), (2, 2, 2, 2), (None, 5, 5, 5), (None, None, 1, 1), (None, 3, None, None),
)  # fmt: skip
"""Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C: nominal 0.743, interval 0.849."""


def test_the_published_example() -> None:
    nominal, interval = alpha_nominal(PUBLISHED), alpha_interval(PUBLISHED)
    assert nominal == Alpha(pytest.approx(0.743, abs=5e-4), 11, "episode", 4)
    assert interval == Alpha(pytest.approx(0.849, abs=5e-4), 11, "episode", 4)


def test_two_raters_and_two_names_by_hand() -> None:
    """aa, bb, ab: observed 2 of 6 ordered pairs differ; expected 2 · 3 · 3 of 6 · 5: alpha = 1 - (1/3) / (3/5)."""
    assert alpha_nominal([("a", "a"), ("b", "b"), ("a", "b")]).value == pytest.approx(4 / 9)


def test_agreement_and_its_contrary() -> None:
    assert alpha_interval([(1, 1), (0, 0), (-1, -1)]).value == 1.0
    against = alpha_interval([(1, -1), (-1, 1)]).value
    assert against is not None
    assert against < 0


@pytest.mark.parametrize("ratings", [[], [(1, None), (None, 2)], [(0.5, 0.5), (0.5, 0.5)]])
def test_where_nothing_can_be_said_nothing_is(ratings: list[tuple[float | None, ...]]) -> None:
    assert alpha_interval(ratings).value is None
    assert alpha_nominal(ratings).value is None


@pytest.mark.parametrize("seed", range(5))
def test_as_the_package_has_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ratings = np.round(draw.uniform(-1, 1, (20, 1)) + draw.normal(0, 0.4, (20, 3)), 1)
    ratings[draw.random((20, 3)) < 0.2] = np.nan
    ours = [[None if np.isnan(x) else float(x) for x in row] for row in ratings]
    assert alpha_interval(ours).value == pytest.approx(krippendorff.alpha(ratings.T, level_of_measurement="interval"))
    assert alpha_nominal(ours).value == pytest.approx(krippendorff.alpha(ratings.T, level_of_measurement="nominal"))
