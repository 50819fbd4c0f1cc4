"""Hand-worked times: a window that halves and grows, and amounts in a sliding minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.calls.pacing import MinuteWindow, Pace


def test_throttling_halves_the_window_once_a_round_trip() -> None:
    pace = Pace(ceiling=16, pause_s=1, cap_s=60)
    pace.throttled(granted_at=0, retry_after_s=None, now=10)
    for _ in range(7):  # sent before the slow-down: no news
        pace.throttled(granted_at=9, retry_after_s=None, now=10.1)
    assert pace.window == 8
    pace.throttled(granted_at=11, retry_after_s=None, now=12)
    assert pace.window == 4


def test_the_window_never_closes() -> None:
    pace = Pace(ceiling=4, pause_s=0, cap_s=60)
    for second in range(20):
        pace.throttled(granted_at=second, retry_after_s=None, now=second)
    assert pace.window == 1


def test_a_window_of_answers_adds_one_up_to_the_ceiling() -> None:
    pace = Pace(ceiling=3, pause_s=0, cap_s=60)
    pace.throttled(granted_at=0, retry_after_s=None, now=0)
    assert pace.window == 1.5
    pace.answered()
    assert pace.window == pytest.approx(1.5 + 1 / 1.5)
    for _ in range(50):
        pace.answered()
    assert pace.window == 3


def test_retry_after_is_obeyed_up_to_the_cap() -> None:
    pace = Pace(ceiling=4, pause_s=0.5, cap_s=60)
    pace.throttled(granted_at=0, retry_after_s=3, now=100)
    assert pace.not_before == 103
    pace.throttled(granted_at=0, retry_after_s=1, now=100)
    assert pace.not_before == 103
    pace.throttled(granted_at=104, retry_after_s=86400, now=105)
    assert pace.not_before == 165


def test_own_pauses_double_until_there_is_an_answer() -> None:
    pace = Pace(ceiling=4, pause_s=0.5, cap_s=60)
    pauses = []
    for at in (0.0, 1000.0, 2000.0):
        pace.throttled(granted_at=at, retry_after_s=None, now=at)
        pauses.append(pace.not_before - at)
    pace.answered()
    pace.throttled(granted_at=3000, retry_after_s=None, now=3000)
    assert [*pauses, pace.not_before - 3000] == [0.5, 1.0, 2.0, 0.5]


def test_a_minute_opens_when_enough_of_it_is_old() -> None:
    minute = MinuteWindow(10)
    minute.take(6, now=0)
    minute.take(4, now=20)
    assert minute.opens_at(1, now=30) == 60
    assert minute.opens_at(6, now=30) == 60
    assert minute.opens_at(7, now=30) == 80
    assert minute.opens_at(6, now=60) == 60


def test_a_corrected_amount_frees_the_difference() -> None:
    minute = MinuteWindow(10)
    taken = minute.take(10, now=0)
    assert minute.opens_at(5, now=1) == 60
    minute.correct(taken, 5)
    assert minute.opens_at(5, now=1) == 1
    minute.opens_at(0, now=61)
    minute.correct(taken, 500)  # too late: it is old already
    assert minute.opens_at(10, now=61) == 61


def test_more_than_the_limit_waits_for_an_empty_minute() -> None:
    minute = MinuteWindow(10)
    assert minute.opens_at(50, now=0) == 0
    minute.take(1, now=0)
    assert minute.opens_at(50, now=1) == 60


def test_no_limit_is_always_open() -> None:
    minute = MinuteWindow(None)
    minute.take(10**9, now=0)
    assert minute.opens_at(10**9, now=0) == 0


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 10)), max_size=60), st.integers(10, 30))
def test_no_minute_ever_holds_more_than_the_limit(wishes: list[tuple[float, int]], limit: int) -> None:
    minute, now, taken = MinuteWindow(limit), 0.0, list[tuple[float, int]]()
    for gap, amount in wishes:
        now = max(now + gap, minute.opens_at(amount, now + gap))
        minute.take(amount, now)
        taken.append((now, amount))
    for start, _ in taken:
        assert sum(amount for at, amount in taken if start <= at < start + 60) <= limit
