"""The plan: sizes worked out by hand, ids, growth, retries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.errors import UsageError
from rollouts.naming import slug
from rollouts.plan import PlanGroup, episode_ids, extend_plan, make_plan, owed, superseding
from rollouts.records import PlannedEpisode, Unit

ONE = PlanGroup("defend_the_center", "rule", "oracle", seeds=(1, 2, 3))


def sizes(units: tuple[Unit, ...]) -> list[int]:
    return [len(unit.episodes) for unit in units]


def everything(units: tuple[Unit, ...]) -> list[tuple[str, PlannedEpisode]]:
    return [(unit.policy, episode) for unit in units for episode in unit.episodes]


def test_the_published_protocol_is_an_episode_a_unit() -> None:
    """2 scenarios x 2 policies x 8 seeds = 32 episodes, and 32 / 64 rounds up to one."""
    groups = [
        PlanGroup(scenario, "rule", policy, seeds=tuple(range(8)))
        for scenario in ("defend_the_center", "health_gathering")
        for policy in ("oracle", "random")
    ]
    units = make_plan(groups)
    assert sizes(units) == [1] * 32
    assert [unit.number for unit in units] == list(range(32))
    assert units[8] == Unit(8, "defend_the_center", "rule", "random", (PlannedEpisode(0, 0),))
    assert units[31].part == "part-0000031"


def test_a_seed_keeps_its_episodes_together() -> None:
    units = make_plan([replace(ONE, seeds=(7, 5), episodes_per_seed=2)])
    assert everything(units) == [("oracle", PlannedEpisode(*of)) for of in ((7, 0), (7, 1), (5, 0), (5, 1))]


def test_frames_bound_a_unit_by_its_shard_of_50_mb() -> None:
    """300 decisions x 26.5 kB = 7.95 MB an episode: six fill 50 MB, though 6,400 / 64 would allow a hundred."""
    group = replace(ONE, seeds=tuple(range(640)), episodes_per_seed=10)
    assert max(sizes(make_plan([replace(group, frames="png")]))) == 6
    assert max(sizes(make_plan([replace(group, frames="none")]))) == 100
    assert max(sizes(make_plan([replace(group, frames="none", step_cap=2_000)]))) == 50


def test_a_64th_of_all_episodes_rounds_up() -> None:
    """65 episodes over two groups: ceil(65 / 64) = 2 a unit, and no unit holds two groups."""
    groups = [replace(ONE, seeds=tuple(range(33))), replace(ONE, policy="random", seeds=tuple(range(32)))]
    units = make_plan(groups)
    assert sizes(units) == [2] * 16 + [1] + [2] * 16


def test_an_episode_a_unit_where_decisions_cost_a_call() -> None:
    group = replace(ONE, seeds=tuple(range(200)), frames="none")
    assert max(sizes(make_plan([group]))) == 4
    assert max(sizes(make_plan([replace(group, costs_a_call=True)]))) == 1
    assert sizes(make_plan([replace(group, costs_a_call=True)], episodes_per_unit=50)) == [50] * 4


@pytest.mark.parametrize("groups", [[], [replace(ONE, seeds=())], [replace(ONE, episodes_per_seed=0)]])
def test_an_empty_plan_is_refused(groups: list[PlanGroup]) -> None:
    with pytest.raises(UsageError, match="plan is empty"):
        make_plan(groups)


def test_a_doubled_seed_is_refused() -> None:
    with pytest.raises(UsageError, match=r"defend_the_center\.rule\.oracle\.2\.0 is planned twice"):
        make_plan([replace(ONE, seeds=(1, 2, 2))])


def test_names_that_share_an_id_are_refused_and_named() -> None:
    odd = replace(ONE, policy="org/Model")
    with pytest.raises(UsageError, match=r"'org/Model'.*'org-model-"):
        make_plan([odd, replace(ONE, policy=slug("org/Model"))])


def test_growth_appends_what_is_new() -> None:
    plan = make_plan([ONE])
    grown = replace(ONE, seeds=(1, 2, 3, 9), episodes_per_seed=2)
    added = extend_plan(plan, [grown])
    assert [unit.number for unit in added] == [3, 4, 5, 6, 7]
    assert [(e.seed, e.index) for unit in added for e in unit.episodes] == [(1, 1), (2, 1), (3, 1), (9, 0), (9, 1)]
    assert extend_plan((*plan, *added), [grown]) == ()
    assert extend_plan((*plan, *added), [ONE]) == ()


def test_a_failed_episode_gets_one_further_try_at_a_time() -> None:
    plan = make_plan([ONE])
    failed = {episode_ids(plan[1])[0]: 1}
    retry = extend_plan(plan, [ONE], retry=failed)
    assert retry == (Unit(3, "defend_the_center", "rule", "oracle", (PlannedEpisode(2, 0, tries=1),)),)
    assert extend_plan((*plan, *retry), [ONE], retry=failed) == ()
    failed_again = {episode_ids(plan[1])[0]: 3}
    (third,) = extend_plan((*plan, *retry), [ONE], retry=failed_again)
    assert third.episodes == (PlannedEpisode(2, 0, tries=2),)


def test_owed_keeps_the_order_of_the_plan() -> None:
    plan = make_plan([ONE])
    assert [unit.number for unit in owed(plan, {1})] == [0, 2]
    assert owed(plan, {0, 1, 2}) == []


def test_the_last_committed_row_of_an_episode_counts() -> None:
    plan = make_plan([ONE])
    plan += extend_plan(plan, [ONE], retry={episode_ids(plan[1])[0]: 1})
    first, second, third = (episode_ids(unit)[0] for unit in plan[:3])
    assert superseding(plan, {0, 1, 2}) == {first: 0, second: 1, third: 2}
    assert superseding(plan, {0, 1, 3}) == {first: 0, second: 3}


seeds = st.sets(st.integers(0, 2**32 - 1), max_size=30).map(lambda found: tuple(sorted(found)))


@given(few=seeds, more=seeds, episodes=st.integers(1, 4), per_unit=st.none() | st.integers(1, 7))
def test_each_wanted_episode_is_planned_once_however_a_plan_came_to_be(
    few: tuple[int, ...], more: tuple[int, ...], episodes: int, per_unit: int | None
) -> None:
    first = replace(ONE, seeds=few)
    second = replace(ONE, seeds=tuple(sorted({*few, *more})), episodes_per_seed=episodes)
    plan = extend_plan((), [first], per_unit)
    plan += extend_plan(plan, [second], per_unit)
    planned = [(e.seed, e.index) for unit in plan for e in unit.episodes]
    assert sorted(planned) == [(seed, index) for seed in second.seeds for index in range(episodes)]
    assert [unit.number for unit in plan] == list(range(len(plan)))
    assert all(unit.episodes for unit in plan)
