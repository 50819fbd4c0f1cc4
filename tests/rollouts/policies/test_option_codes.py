"""Probabilities from the log-probabilities of one token; expected values by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rollouts.calls.chat_records import TokenLogprob
from rollouts.errors import UsageError
from rollouts.policies.option_codes import OptionScores, codes_of, score_options

OPTIONS = ("attack", "turn left", "turn right")


def token(text: str, *top: tuple[str, float]) -> TokenLogprob:
    """`top` holds probabilities, not their logarithms."""
    pairs = tuple((name, math.log(p)) for name, p in top)
    own = dict(pairs).get(text, math.log(0.5))
    return TokenLogprob(text, own, pairs)


def scores(*tokens: TokenLogprob, shown: tuple[str, ...] = OPTIONS) -> OptionScores:
    found = score_options(tokens, shown, OPTIONS)
    assert found is not None
    return found


def test_variants_of_a_letter_are_added() -> None:
    found = scores(token("B", ("B", 0.4), ("A", 0.3), (" A", 0.25), ("The", 0.05)))
    assert found.probabilities == pytest.approx({"attack": 0.55, "turn left": 0.4})
    assert found.mass == pytest.approx(0.95)
    assert found.best() == "attack"


def test_what_is_not_listed_has_a_bound_and_no_probability() -> None:
    found = scores(token("A", ("A", 0.7), ("B", 0.2), ("Go", 0.06)))
    assert "turn right" not in found.probabilities
    assert found.bound == pytest.approx(0.04)


def test_where_all_are_listed_there_is_no_bound() -> None:
    assert scores(token("A", ("A", 0.5), ("B", 0.25), ("C", 0.125))).bound is None


def test_the_scenarios_order_stays_whatever_was_shown() -> None:
    found = scores(token("A", ("A", 0.6), ("B", 0.3), ("C", 0.1)), shown=("turn right", "attack", "turn left"))
    assert list(found.probabilities.items()) == [
        ("attack", pytest.approx(0.3)),
        ("turn left", pytest.approx(0.1)),
        ("turn right", pytest.approx(0.6)),
    ]


def test_blank_tokens_are_passed_over_and_other_places_ignored() -> None:
    found = scores(token("\n", ("\n", 0.9)), token("▁C", ("▁C", 0.8)), token("A", ("A", 1.0)))
    assert found.probabilities == pytest.approx({"turn right": 0.8})


def test_a_chosen_token_that_is_not_among_the_alternatives_counts() -> None:
    found = scores(TokenLogprob("A", math.log(0.25), (("B", math.log(0.5)),)))
    assert found.probabilities == pytest.approx({"attack": 0.25, "turn left": 0.5})


def test_no_letter_is_no_choice() -> None:
    found = scores(token("The", ("The", 0.9)))
    assert (found.probabilities, found.mass, found.best()) == ({}, 0.0, None)
    assert found.bound == pytest.approx(0.1)
    assert score_options([token(" ", (" ", 1.0))], OPTIONS, OPTIONS) is None


def test_what_is_no_probability_does_no_harm() -> None:
    found = scores(TokenLogprob("A", 0.0001, (("A", 0.0001), ("B", math.nan), ("C", -math.inf))))
    assert found.probabilities == {"attack": 1.0, "turn right": 0.0}


def test_a_draw_follows_the_temperature() -> None:
    found, rng = scores(token("A", ("A", 0.6), ("B", 0.2), ("C", 0.1))), np.random.default_rng(1)
    assert {found.draw(0.0, rng) for _ in range(50)} == {"attack"}
    drawn = [found.draw(1.0, rng) for _ in range(9_000)]
    shares = [drawn.count(option) / 9_000 for option in OPTIONS]
    assert shares == pytest.approx([6 / 9, 2 / 9, 1 / 9], abs=0.02)


def test_there_are_as_many_options_as_letters() -> None:
    assert codes_of(OPTIONS) == {"A": "attack", "B": "turn left", "C": "turn right"}
    with pytest.raises(UsageError, match="27 options"):
        codes_of([str(n) for n in range(27)])
