"""What thinking costs: the same seeds at different latencies, on the real engine."""

from __future__ import annotations

import pytest

from benchmarks.paired import interval, play, seeds_of
from rollouts.realtime import RealTime
from rollouts.scenarios.registry import SCENARIOS


@pytest.mark.slow
def test_a_second_of_thought_kills_clearly_less_than_none_on_32_paired_seeds() -> None:
    """The interval of the differences, seed by seed, lies above 0; what takes no time plays as the game that waits."""
    scenario = SCENARIOS["defend_the_center"]
    seeds = seeds_of(scenario, 32)
    at_once, slow = (play(scenario, "oracle", seeds, RealTime("hold", ms)) for ms in (0.0, 1_000.0))
    assert interval([one.metric - other.metric for one, other in zip(at_once, slow, strict=True)]).low > 0
    waits = play(scenario, "oracle", seeds[:8])
    assert [e.trajectory_hash for e in at_once[:8]] == [e.trajectory_hash for e in waits]
