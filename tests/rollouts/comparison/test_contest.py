"""Two policies on one scenario: pairs, what has none, and verdicts; and equal ones that come out as equal."""

from __future__ import annotations

import numpy as np
import pytest

from rollouts.comparison.contest import Margin, contest, judge, unpaired_lines
from rollouts.comparison.leaderboard import leaderboard
from rollouts.comparison.played import Place, Ratio
from rollouts.errors import UsageError
from tests.compared import of_seeds, played


def test_episodes_are_paired_by_seed_and_index_whatever_their_order() -> None:
    first = played({(1, 0): 1, (1, 1): 2, (2, 0): 3})
    second = played({(2, 0): 30, (1, 1): 20, (1, 0): 10})
    found = contest(first, second)
    assert list(found.rows()) == [((1, 0), 1, 10), ((1, 1), 2, 20), ((2, 0), 3, 30)]
    assert found.metric is not None
    assert found.metric.difference.mean.value == 18


def test_what_has_no_pair_is_named_with_the_reason() -> None:
    first = played({(1, 0): 1, (2, 0): 2, (3, 0): 3}, absent={(4, 0): "failed (engine: it died)"})
    second = played({(1, 0): 1, (4, 0): 4, (4, 1): 5}, absent={(2, 0): "not played yet"})
    found = contest(first, second)
    assert found.pairs == ((1, 0),)
    assert list(unpaired_lines(found.unpaired)) == [
        "unpaired: 1 episode in A alone, in B not played yet: seed 2",
        "unpaired: 1 episode in A alone, in B not planned: seed 3",
        "unpaired: 1 episode in B alone, in A failed (engine: it died): seed 4",
        "unpaired: 1 episode in B alone, in A not planned: seed 4/1",
    ]
    assert found.as_dict()["unpaired"][0] == {
        **{"seed": 2, "episode_index": 0, "in": "A", "not_in": "B", "why": "not played yet"}
    }


def test_a_pair_without_the_measure_counts_in_the_others_alone() -> None:
    agreeing = {"agreement": {(1, 0): Ratio(1, 2), (2, 0): Ratio(0, 4)}}
    found = contest(played({(1, 0): 1, (2, 0): None}, more=agreeing), played({(1, 0): 3, (2, 0): 5}, more=agreeing))
    by_name = {measured.name: measured.difference for measured in found.measures}
    assert (by_name["kills"].mean.n, by_name["kills"].mean.value) == (1, 2)
    assert (by_name["agreement"].mean.n, by_name["agreement"].first.value) == (2, 1 / 6)


def test_other_metrics_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="kills and reward"):
        contest(played({(1, 0): 1}), played({(1, 0): 1}, metric="reward"))


def test_what_else_differs_is_told() -> None:
    found = contest(played({}, settings={"tics": 4, "engine": "a"}), played({}, settings={"tics": 8, "engine": "a"}))
    assert found.differing_settings == {"tics": (4, 8)}


def verdict(first: list[float], second: list[float], margin: str = "kills:1") -> tuple[bool | None, bool]:
    (found,) = judge([contest(of_seeds(first), of_seeds(second))], Margin.parse(margin))
    return found.worse, found.fails


def test_worse_is_what_lies_beyond_the_margin_with_its_whole_interval() -> None:
    lost = [9.0, 8.0, 7.0, 8.0, 9.0, 10.0]
    assert verdict([10.0] * 6, [x - 8 for x in lost]) == (True, True)
    assert verdict([10.0] * 6, [x - 0.5 for x in lost], "kills:3") == (False, False)
    assert verdict([1.0] * 6, lost) == (False, False)


def test_what_is_worse_on_the_average_but_may_be_chance_is_not_shown_to_be_worse() -> None:
    """Differences -9, 4, -6, 5, -8, 6: -1.33 on the average."""
    assert verdict([10.0] * 6, [1.0, 14.0, 4.0, 15.0, 2.0, 16.0]) == (False, False)


def test_all_pairs_worse_by_the_same_need_no_interval() -> None:
    assert verdict([5.0, 6.0], [3.0, 4.0]) == (True, True)
    assert verdict([5.0, 6.0], [3.0, 4.0], "kills:2") == (False, False)


@pytest.mark.parametrize("seeds", [(7, 8), (7, 1)])
def test_fewer_than_two_pairs_cannot_pass(seeds: tuple[int, int]) -> None:
    """However much better B was in the one."""
    first, second = played({(1, 0): 5.0, (2, 0): 5.0}), played({(seed, 0): 50.0 for seed in seeds})
    (found,) = judge([contest(first, second)], Margin.parse("kills:1"))
    assert (found.worse, found.fails) == (None, True)
    assert "cannot be judged" in str(found)


def test_a_measure_where_less_is_better() -> None:
    less = {"brier": {(1, 0): Ratio(0.1), (2, 0): Ratio(0.2)}}
    more = {"brier": {(1, 0): Ratio(0.9), (2, 0): Ratio(0.8)}}
    places: dict[Place, float | None] = {(1, 0): 1.0, (2, 0): 1.0}
    worse, better = (
        judge([contest(played(places, more=a), played(places, more=b))], Margin("brier", 0.5))[0].worse
        for a, b in ((less, more), (more, less))
    )
    assert (worse, better) == (True, False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kills", "give METRIC:MARGIN"),
        ("kills:", "give METRIC:MARGIN"),
        ("kills:-1", "a margin is 0 or above"),
        ("kills:nan", "a margin is 0 or above"),
        (":1", "give METRIC:MARGIN"),
    ],
)
def test_margins_that_are_none(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Margin.parse(text)


def test_a_measure_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r'"kils" is unknown.*"kills".*choose from kills'):
        judge([contest(of_seeds([1.0]), of_seeds([2.0]))], Margin("kils", 1))


def test_r_alone_means_the_only_r() -> None:
    graded = {"R (heuristic h-1)": {(1, 0): Ratio(0.5), (2, 0): Ratio(0.7)}}
    places: dict[Place, float | None] = {(1, 0): 1.0, (2, 0): 1.0}
    found = contest(played(places, more=graded), played(places, more=graded))
    assert judge([found], Margin("R", 0))[0].measured.name == "R (heuristic h-1)"


def test_a_leaderboard_ranks_over_what_all_completed() -> None:
    """Seed 3 would put `low` first; it is left out, for `mid` did not complete it."""
    low = played({(1, 0): 1, (2, 0): 2, (3, 0): 1000}, policy="low")
    mid = played({(1, 0): 3, (2, 0): 4}, absent={(3, 0): "failed"}, policy="mid")
    top = played({(1, 0): 5, (2, 0): 9, (3, 0): 0}, policy="top")
    board = leaderboard([low, mid, top])
    assert [line.group.facts.policy for line in board.lines] == ["top", "mid", "low"]
    assert board.episodes == ((1, 0), (2, 0))
    assert [(u.place, u.missing, u.why) for u in board.unpaired] == [((3, 0), "run:mid", "failed")]
    first, second, _ = board.lines
    assert first.behind is None
    assert second.behind is not None
    assert second.behind.mean.value == 3.5 - 7


@pytest.mark.slow
def test_equal_policies_differ_significantly_in_one_of_twenty_comparisons() -> None:
    """A/A: 100 times two plays of 32 seeds. A seed has a rate of its own (gamma with the mean 1.5), and both plays draw
    their kills from it (Poisson), as a random policy's are: mostly 0 to 4."""
    draw = np.random.default_rng(1)
    quiet = 0
    for _ in range(100):
        rates = draw.gamma(4.0, 1.5 / 4.0, 32)
        found = contest(*(of_seeds(draw.poisson(rates).astype(float).tolist()) for _ in range(2)))
        assert found.metric is not None
        quiet += not found.metric.difference.significant
    assert 90 <= quiet <= 99
