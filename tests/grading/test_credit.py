from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.credit import (
    EVENTS,
    SUMMARY,
    AlphaRule,
    CreditRow,
    CreditSettings,
    credit_rows,
    group_advantages,
    parse_rule,
    priority,
    returns,
    spread,
)
from grading.transcript import TranscriptStep
from rollouts.errors import UsageError

units = st.floats(0, 1)
alphas = st.lists(units, max_size=40)
rewards = st.floats(-1, 1)


def steps(*events: str) -> list[TranscriptStep]:
    return [TranscriptStep(n, "s", "attack", events=tuple(e.split())) for n, e in enumerate(events)]


def test_three_steps_worked_by_hand() -> None:
    # V2 = 0.8; V1 = 1 * 0.8 = 0.8; V0 = 0.9 * 0.8 = 0.72
    assert spread(0.8, [0, 1, 0.5]) == pytest.approx((0.72, 0.8, 0.8))
    # V2 = 0.8; V1 = 0.5 * 0.8 + 0.5 * 0.9 * 0.8 = 0.76; V0 = 0.9 * 0.76 = 0.684
    assert spread(0.8, [0, 0.5, 1]) == pytest.approx((0.684, 0.76, 0.8))
    # V2 = -1; V1 = 0.5 * -1 = -0.5; V0 = 0.25 * -1 + 0.75 * 0.5 * -0.5 = -0.4375
    assert spread(-1, [0.25, 0, 0], gamma=0.5) == pytest.approx((-0.4375, -0.5, -1))


def test_alpha_gamma_and_r_are_clamped() -> None:
    assert spread(7, [-3, 9, 0], gamma=2) == (1, 1, 1)
    assert spread(-7, [0, 0], gamma=-1) == (0, -1)
    assert spread(0.5, []) == ()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_an_error(bad: float) -> None:
    for arguments in ((0.5, [0, bad, 0], 0.9), (bad, [0], 0.9), (0.5, [0], bad)):
        with pytest.raises(ValueError, match="finite"):
            spread(*arguments)


@given(rewards, alphas, units)
def test_credit_is_between_0_and_r_and_ends_at_r(reward: float, a: list[float], gamma: float) -> None:
    values = spread(reward, a, gamma)
    assert len(values) == len(a)
    assert all(min(0, reward) - 1e-12 <= v <= max(0, reward) + 1e-12 for v in values)
    assert not values or values[-1] == reward


@given(rewards, alphas, units)
def test_each_value_follows_from_the_next(reward: float, a: list[float], gamma: float) -> None:
    values = spread(reward, a, gamma)
    for alpha, value, following in zip(a, values, values[1:], strict=False):
        assert value == pytest.approx(alpha * reward + (1 - alpha) * gamma * following)


@given(rewards, st.integers(1, 40), units)
def test_the_ends_of_alpha(reward: float, count: int, gamma: float) -> None:
    assert spread(reward, [1.0] * count, gamma) == (reward,) * count
    discounted = [reward * gamma ** (count - 1 - t) for t in range(count)]
    assert spread(reward, [0.0] * count, gamma) == pytest.approx(discounted)


@given(rewards, alphas)
def test_credit_grows_with_alpha_in_size(reward: float, a: list[float]) -> None:
    more = spread(reward, [min(1.0, alpha + 0.1) for alpha in a])
    assert all(abs(m) >= abs(v) - 1e-12 for m, v in zip(more, spread(reward, a), strict=True))


def test_rows_under_the_events_rule() -> None:
    rows = credit_rows(1.0, steps("", "kill hit", ""), CreditSettings(EVENTS))
    assert rows == (CreditRow(0, 0.0, 0.9), CreditRow(1, 1.0, 1.0), CreditRow(2, 0.0, 1.0))


def test_rows_under_the_summary_rule() -> None:
    # spans: ticks 0-1 (score 10: alpha 0), tick 2 (score 2.5: alpha 0.75)
    given_steps = steps("", "kill", "")
    rows = credit_rows(1.0, given_steps, CreditSettings(SUMMARY), {0: 10.0, 2: 2.5})
    assert rows is not None
    assert [row.alpha for row in rows] == [0.0, 0.0, 0.75]
    assert [row.value for row in rows] == pytest.approx([0.81, 0.9, 1.0])


def test_a_span_without_a_score_leaves_the_episode_without_rows() -> None:
    assert credit_rows(1.0, steps("", "kill", ""), CreditSettings(SUMMARY), {0: 10.0}) is None
    assert credit_rows(1.0, steps(""), CreditSettings(SUMMARY)) is None


@pytest.mark.parametrize("rule", [EVENTS, SUMMARY, AlphaRule("constant", 0.5)])
def test_an_ungraded_episode_has_no_rows(rule: AlphaRule) -> None:
    assert credit_rows(None, steps(""), CreditSettings(rule), {0: 5.0}) is None


def test_rules_by_name() -> None:
    assert (parse_rule("events"), parse_rule("summary")) == (EVENTS, SUMMARY)
    assert parse_rule("constant:0.25") == AlphaRule("constant", 0.25)
    assert parse_rule("constant:7").constant == 1.0
    assert [str(parse_rule(t)) for t in ("events", "constant:0.5")] == ["events", "constant:0.5"]


@pytest.mark.parametrize(
    "text", ["", "event", "constant", "constant:", "constant:x", "constant:nan", "events:1", "constant:inf"]
)
def test_unknown_rules_name_the_choices(text: str) -> None:
    with pytest.raises(UsageError, match="events, summary, constant:x"):
        parse_rule(text)


def test_priority_halves_every_30_days_and_sinks_at_0() -> None:
    assert priority(0.8, 0) == 0.8
    assert priority(0.8, 30) == pytest.approx(0.4)
    assert priority(0.8, 60) == pytest.approx(0.2)
    assert priority(-0.8, 0) == 0
    assert priority(0.8, -5) == 0.8


def test_returns_are_discounted_engine_reward() -> None:
    assert returns([1, 0, 2], gamma=0.5) == (1.5, 1, 2)
    assert returns([]) == ()


def test_group_is_r_against_its_scenario_and_seed() -> None:
    graded = [("a", 1, 0.2), ("a", 1, 0.6), ("a", 2, 0.9), ("b", 1, -1.0), ("a", 1, None), ("b", 3, None)]
    assert group_advantages(graded) == pytest.approx((-1.0, 1.0, 0.0, 0.0, None, None))


def test_equal_rewards_have_no_advantage_despite_rounding() -> None:
    assert group_advantages([("a", 1, 0.1)] * 3) == (0.0, 0.0, 0.0)


@given(st.lists(rewards, min_size=2, max_size=10))
def test_advantages_of_a_group_sum_to_0_with_sd_1(group: list[float]) -> None:
    found = [a for a in group_advantages([("s", 0, r) for r in group]) if a is not None]
    assert sum(found) == pytest.approx(0, abs=1e-3)
    if max(group) - min(group) > 1e-6:
        assert math.fsum(a * a for a in found) / len(found) == pytest.approx(1)
