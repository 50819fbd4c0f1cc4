from __future__ import annotations

import numpy as np
import pytest

from benchmarks.paired import interval, play, seeds_of
from rollouts.scenarios.registry import SCENARIOS


def test_a_scenarios_own_seeds_come_first() -> None:
    assert seeds_of(SCENARIOS["basic"], 4) == (0, 1, 2, 3)
    assert seeds_of(SCENARIOS["defend_the_center"], 10) == tuple(range(42106076, 42106086))


def test_an_interval_holds_the_mean_and_is_as_wide_as_theory_says() -> None:
    """Of n values, half 0 and half 1, the mean has the standard error 0.5 / sqrt(n)."""
    found = interval([0.0, 1.0] * 200)
    assert found.mean == 0.5
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.05)
    assert str(interval([2.0] * 4)) == "2.00 [undefined]"


def test_an_interval_lies_around_the_mean_of_a_normal_sample() -> None:
    values = np.random.default_rng(1).normal(10, 2, 400)
    found, error = interval(values.tolist()), values.std() / np.sqrt(400)
    assert found.low == pytest.approx(values.mean() - 1.96 * error, abs=0.3 * error)
    assert found.high == pytest.approx(values.mean() + 1.96 * error, abs=0.3 * error)


@pytest.mark.slow
def test_what_is_played_is_what_a_run_comes_out_at() -> None:
    """The first published episodes of the oracle: 11 and 10 kills."""
    scenario = SCENARIOS["defend_the_center"]
    assert [episode.metric for episode in play(scenario, "oracle", scenario.seeds[:2])] == [11.0, 10.0]
