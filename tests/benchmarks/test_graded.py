from __future__ import annotations

import pytest

from benchmarks.graded import IN_FLIGHT, measure


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_graded_run_is_measured_against_the_larger_of_its_parts() -> None:
    """Each of the episodes is graded once and has a summary or more; 0.05 s a reply, 16 at a time."""
    measured = measure(episodes=2, reply_s=0.05)
    assert measured.requests >= 2 * 2
    assert 1 <= measured.most_in_flight <= IN_FLIGHT
    assert measured.calls_s == pytest.approx(measured.requests * 0.05 / 16)
    assert 0 < measured.first_request_s < measured.wall_s
    assert measured.ratio == pytest.approx(measured.wall_s / max(measured.rollouts_s, measured.calls_s))
    assert measured.ratio > 1
    larger = max(measured.rollouts_alone_s, measured.calls_s)
    assert measured.ratio_to_rollouts_alone == pytest.approx(measured.wall_s / larger)
    since = measured.wall_s - measured.first_request_s
    assert measured.ratio_since_first_request == pytest.approx(since / measured.calls_s)
    assert measured.rollouts_alone_s > 0
