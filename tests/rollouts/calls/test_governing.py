"""The book of calls, with a clock of our own: turns, rates, budget, refusals, dead holders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.calls.governing import GRACE_S, Blocked, CallBook
from rollouts.calls.limits import Budget, Limits, Order, Outcome, Permit, Spending
from rollouts.errors import BudgetSpent, RunStopped, UsageError

CALL = Order("a")
ANSWERED = Outcome("answered", Spending(1, 30))


def order(lane: str = "a", tokens: int = 0, usd: float = 0.0, holder: str = "") -> Order:
    return Order(lane, Spending(1, tokens, usd), time_limit_s=20, holder=holder)


def granted(book: CallBook, wish: Order = CALL, now: float = 0.0) -> Permit:
    answer = book.ask(wish, now)
    assert isinstance(answer, Permit)
    return answer


def test_in_flight_is_shared_by_all_lanes() -> None:
    book = CallBook(Limits(in_flight=2))
    first = granted(book, order("a"))
    granted(book, order("b"))
    assert isinstance(book.ask(order("c"), 0), Blocked)
    book.settle(first, ANSWERED, 1)
    granted(book, order("c"), 1)
    assert book.status().most_in_flight == 2


def test_a_throttled_lane_slows_down_and_leaves_the_others_alone() -> None:
    book = CallBook(Limits(in_flight=4, pause_s=0.5))
    book.settle(granted(book), Outcome("throttled", Spending(1), retry_after_s=3), 10)
    assert book.ask(order("a"), 10) == Blocked(13)
    granted(book, order("b"), 10)
    granted(book, order("a"), 13)
    granted(book, order("a"), 13)
    assert isinstance(book.ask(order("a"), 13), Blocked)
    assert dict(book.status().window) == {"a": 2, "b": 4}


def test_requests_a_minute() -> None:
    book = CallBook(Limits(requests_per_minute=2))
    for now in (0.0, 5.0):
        book.settle(granted(book, now=now), ANSWERED, now)
    assert book.ask(CALL, 6) == Blocked(60)
    granted(book, now=60)


def test_tokens_a_minute_count_what_was_really_used() -> None:
    book = CallBook(Limits(tokens_per_minute=100))
    permit = granted(book, order(tokens=90))
    assert book.ask(order(tokens=50), 1) == Blocked(60)
    book.settle(permit, Outcome("answered", Spending(1, 40)), 1)
    granted(book, order(tokens=50), 1)


def test_a_permit_given_back_unused_leaves_no_trace() -> None:
    book = CallBook(Limits(requests_per_minute=1, budget=Budget(calls=1)))
    book.settle(granted(book), Outcome("unsent"), 0)
    granted(book)
    assert book.status().spent == Spending()


@pytest.mark.parametrize(
    ("budget", "spent", "told"),
    [
        (Budget(calls=3), Spending(1, 10, 0.1), "budget of 3 calls"),
        (Budget(tokens=30), Spending(1, 10, 0.1), "budget of 30 tokens"),
        (Budget(usd=0.3), Spending(1, 10, 0.1), "budget of 0.3 USD"),
    ],
)
def test_the_budget_stops_at_its_limit_and_not_before(budget: Budget, spent: Spending, told: str) -> None:
    book = CallBook(Limits(budget=budget))
    wish = order(tokens=10, usd=0.1)
    for _ in range(3):
        book.settle(granted(book, wish), Outcome("answered", spent), 0)
    with pytest.raises(BudgetSpent, match=told):
        book.ask(wish, 0)
    assert book.status().spent.calls == 3
    assert book.status().spent.tokens == 30


def test_what_is_open_may_turn_out_cheaper_so_the_last_ones_wait() -> None:
    book = CallBook(Limits(budget=Budget(tokens=100)))
    permit = granted(book, order(tokens=80))
    assert isinstance(book.ask(order(tokens=80), 0), Blocked)
    book.settle(permit, Outcome("answered", Spending(1, 20)), 1)
    granted(book, order(tokens=80), 1)


def test_a_spent_budget_is_spent_for_everybody() -> None:
    book = CallBook(Limits(budget=Budget(tokens=100), spent=Spending(7, 60)))
    with pytest.raises(BudgetSpent, match="7 calls, 60 tokens"):
        book.ask(order(tokens=50), 0)
    with pytest.raises(BudgetSpent):
        book.ask(order("b", tokens=1), 0)


def test_earlier_starts_count_and_a_higher_budget_goes_on() -> None:
    with pytest.raises(BudgetSpent):
        CallBook(Limits(budget=Budget(calls=5), spent=Spending(5))).ask(CALL, 0)
    granted(CallBook(Limits(budget=Budget(calls=6), spent=Spending(5))))


def test_an_unknown_outcome_costs_its_estimate_and_a_failed_call_is_a_call() -> None:
    book = CallBook(Limits())
    book.settle(granted(book, order(tokens=70, usd=0.5)), Outcome("failed"), 0)
    book.settle(granted(book, order(tokens=70, usd=0.5)), Outcome("failed", Spending(1)), 0)
    assert book.status().spent == Spending(2, 70, 0.5)


def test_refusals_in_a_row_stop_the_lane_with_the_cause() -> None:
    book = CallBook(Limits(stop_after=3))
    fatal = Outcome("fatal", Spending(1), cause="HTTP 401: wrong key")
    for outcome in (fatal, fatal, ANSWERED, fatal, fatal):
        book.settle(granted(book), outcome, 0)
    book.settle(granted(book), fatal, 0)
    with pytest.raises(RunStopped, match=r"3 calls in a row were refused.*HTTP 401: wrong key"):
        book.ask(order("a"), 0)
    granted(book, order("b"))
    assert "wrong key" in str(book.status().stopped)


def test_lessons_reach_every_later_permit_of_the_lane() -> None:
    book = CallBook(Limits())
    book.settle(granted(book), Outcome("failed", Spending(1), lesson="seed"), 0)
    assert granted(book).lessons == {"seed"}
    assert granted(book, order("b")).lessons == frozenset()


def test_a_dead_holder_frees_its_turns_and_its_late_word_changes_nothing() -> None:
    book = CallBook(Limits(in_flight=2))
    lost = granted(book, order(tokens=5, holder="dead"))
    kept = granted(book, order(tokens=5, holder="alive"))
    book.forget("dead")
    assert book.status().in_flight == 1
    book.settle(lost, ANSWERED, 1)
    book.settle(kept, ANSWERED, 1)
    assert book.status().in_flight == 0
    assert book.status().spent == Spending(2, 35)


def test_a_permit_that_nobody_settles_is_taken_back() -> None:
    book = CallBook(Limits(in_flight=1))
    granted(book, order(tokens=5), now=100)
    assert book.ask(CALL, 101) == Blocked(100 + 20 + GRACE_S)
    granted(book, now=100 + 20 + GRACE_S)
    assert book.status().spent == Spending(1, 5)


@pytest.mark.parametrize("wrong", [{"in_flight": 0}, {"requests_per_minute": -1}, {"stop_after": 0}, {"pause_s": -1.0}])
def test_impossible_limits_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Limits(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_impossible_budgets_are_named(value: float) -> None:
    with pytest.raises(UsageError, match="usd"):
        Budget(usd=value)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60))
def test_estimates_that_hold_never_let_the_budget_be_overrun(calls: list[tuple[int, int]]) -> None:
    book, open_calls, spent = CallBook(Limits(in_flight=4, budget=Budget(tokens=200))), list[tuple[Permit, int]](), 0
    for estimate, used in calls:
        try:
            answer = book.ask(order(tokens=max(estimate, used)), 0)
        except BudgetSpent:
            break
        if isinstance(answer, Permit):
            open_calls.append((answer, used))
        else:
            permit, tokens = open_calls.pop(0)
            book.settle(permit, Outcome("answered", Spending(1, tokens)), 0)
            spent += tokens
    assert spent + sum(tokens for _, tokens in open_calls) <= 200
