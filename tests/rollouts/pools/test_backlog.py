"""Who gets which unit next."""

from __future__ import annotations

import itertools

import pytest

from rollouts.pools.backlog import Backlog, group_of
from rollouts.pools.pool import Started
from rollouts.pools.scheduler import Scheduler
from rollouts.pools.slots import Send
from rollouts.records import Unit
from tests.pool_doubles import make_units

BIG = [Unit(n, "big", "rule", "oracle", ()) for n in range(10)]
SMALL = [Unit(n, "small", "rule", "oracle", ()) for n in range(10, 14)]
BIG_GROUP, SMALL_GROUP = group_of(BIG[0]), group_of(SMALL[0])


def test_a_group_is_rubric_and_policy_too() -> None:
    assert group_of(Unit(0, "s", "bare", "random", ())) == ("s", "bare", "random")


def test_the_own_group_first_in_order() -> None:
    backlog = Backlog([*BIG, *SMALL])
    assert [backlog.take(SMALL_GROUP, {}).number for _ in range(5)] == [10, 11, 12, 13, 0]


@pytest.mark.parametrize(("crowd", "number"), [({}, 0), ({BIG_GROUP: 1}, 0), ({BIG_GROUP: 2}, 10)])
def test_a_newcomer_goes_where_most_is_left_for_each(crowd: dict[tuple[str, str, str], int], number: int) -> None:
    """10 units for 1 + 1 workers are 5 each, for 2 + 1 3.3; the other group has 4 for the newcomer."""
    assert Backlog([*BIG, *SMALL]).take(None, crowd).number == number


def test_workers_that_come_at_once_count_each_other() -> None:
    names = itertools.count()
    scheduler = Scheduler([*BIG, *SMALL], 3, lambda: str(next(names)))
    scheduler.commands(0.0)
    for slot in range(3):
        scheduler.feed(Started(slot, "w"), 0.0)
    sent = [command.task.unit.number for command in scheduler.commands(0.0) if isinstance(command, Send)]
    assert sent == [0, 1, 10]


def test_what_came_back_goes_before_all_the_last_one_first() -> None:
    backlog = Backlog(make_units(2))
    first, second = backlog.take(None, {}), backlog.take(None, {})
    backlog.give_back(first)
    backlog.give_back(second)
    assert len(backlog) == 2
    assert [backlog.take(SMALL_GROUP, {}) for _ in range(2)] == [second, first]


def test_an_empty_one_has_nothing() -> None:
    with pytest.raises(IndexError):
        Backlog([]).take(None, {})
