"""Blame and streaks, by hand."""

from __future__ import annotations

import pytest

from rollouts.pools.patience import DeathCaps, Limits
from rollouts.pools.trouble import Streak, Trouble, episode_ids
from tests.pool_doubles import make_units

UNIT = make_units(1, episodes=2)[0]
FIRST, SECOND = episode_ids(UNIT)


def test_ids_follow_the_units_order() -> None:
    assert (FIRST, SECOND) == ("scenario0.rule.oracle.0.0", "scenario0.rule.oracle.0.1")


def test_first_whole_then_alone_then_whole_without_the_killer() -> None:
    trouble = Trouble(UNIT, DeathCaps(together=2, alone=2))
    assert (trouble.died("x"), trouble.on_trial, trouble.todo) == ((), False, UNIT)
    assert (trouble.died("x"), trouble.on_trial) == ((), True)
    assert trouble.todo.episodes == UNIT.episodes[:1]
    assert trouble.todo.number == UNIT.number
    assert trouble.died("x") == ()
    trouble.survived()
    assert trouble.todo.episodes == UNIT.episodes[1:]
    assert trouble.died("x") == ()
    assert trouble.died("y") == (SECOND,)
    assert (trouble.on_trial, trouble.todo, trouble.blamed) == (False, UNIT, {SECOND: "y"})


def test_who_may_be_blamed_is_played_in_a_process_of_its_own() -> None:
    many, one = Trouble(UNIT, DeathCaps(together=2, alone=2)), Trouble(make_units(1)[0], DeathCaps(together=2, alone=2))
    for trouble in (many, one):
        assert not trouble.alone
        trouble.died("x")
        assert not trouble.alone, "it need not have been this one"
        trouble.died("x")
        assert trouble.alone
        assert not trouble.blamed
        trouble.died("x")
        assert trouble.alone
    assert one.died("x") == ("scenario0.rule.oracle.0.0",)


def test_when_nobody_is_left_to_blame_it_is_hopeless() -> None:
    trouble = Trouble(UNIT, DeathCaps(together=1, alone=1))
    assert [trouble.died("x") for _ in range(3)] == [(), (FIRST,), (SECOND,)]
    assert not trouble.hopeless
    trouble.died("x")
    assert trouble.hopeless


def test_a_streak_is_of_one_cause_whatever_its_numbers() -> None:
    streak = Streak(3)
    assert [streak.add(f"process {n} died at 0x{n:x}f") for n in (71, 2, 999)] == [False, False, True]
    assert streak.first == "process 71 died at 0x47f"


def test_another_cause_or_a_success_breaks_it() -> None:
    streak = Streak(2)
    assert not streak.add("a")
    assert not streak.add("b")
    streak.broken()
    assert not streak.add("b")
    assert streak.add("b")


@pytest.mark.parametrize(("failures", "rest_s"), [(1, 0.25), (2, 0.5), (3, 1.0), (6, 8.0), (7, 15.0), (5000, 15.0)])
def test_rests_double_up_to_the_longest(failures: int, rest_s: float) -> None:
    assert Limits().rest_after_s(failures) == rest_s
