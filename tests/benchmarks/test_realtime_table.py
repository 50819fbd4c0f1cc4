"""What thinking costs: the same seeds at different latencies, on the real engine."""

from __future__ import annotations

import pytest

from benchmarks.realtime import interval, paired_seeds, play
from rollouts.realtime import RealTime
from rollouts.scenarios import SCENARIOS


@pytest.mark.slow
def test_a_second_of_thought_kills_clearly_less_than_none_on_32_paired_seeds() -> None:
    """The interval of the differences, seed by seed, lies above 0; what takes no time plays as the game that waits."""
    seeds = paired_seeds(32)
    at_once, slow = play(seeds, RealTime("hold", 0.0)), play(seeds, RealTime("hold", 1_000.0))
    assert interval([one.metric - other.metric for one, other in zip(at_once, slow, strict=True)]).low > 0
    waits = play(seeds[:8], None)
    assert [e.trajectory_hash for e in at_once[:8]] == [e.trajectory_hash for e in waits]


def test_the_published_seeds_come_first() -> None:
    seeds = paired_seeds(32)
    assert seeds[:8] == SCENARIOS["defend_the_center"].seeds
    assert len(set(seeds)) == 32


def test_an_interval_holds_the_mean_and_is_as_wide_as_theory_says() -> None:
    """Of n values, half 0 and half 1, the mean has the standard error 0.5 / sqrt(n)."""
    found = interval([0.0, 1.0] * 200)
    assert found.mean == 0.5
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.05)
    assert str(interval([2.0] * 4)) == "2.00 [2.00, 2.00]"
