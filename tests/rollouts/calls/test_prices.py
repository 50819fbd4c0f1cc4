"""Costs worked by hand, and a user's own prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.calls.chat_records import ChatMessage, ChatRequest
from rollouts.calls.limits import Budget
from rollouts.calls.prices import PRICES, Price, estimate_tokens, find_price, read_prices, require_prices
from rollouts.errors import UsageError


def test_cost_counts_cached_input_at_its_own_price() -> None:
    price = Price(input=2.0, output=8.0, cached=0.5)
    assert price.cost_usd(1_000_000, 500_000, 400_000) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 8)
    assert Price(2.0, 8.0).cost_usd(1_000_000, 0, 400_000) == pytest.approx(2.0)


def test_a_dated_name_has_the_price_of_its_model_and_others_have_none() -> None:
    assert find_price(PRICES, "gpt-4o-2024-08-06") == PRICES["gpt-4o"]
    assert find_price(PRICES, "gpt-4o-something") is None
    assert find_price(PRICES, "my-model") is None


def test_a_users_table_goes_over_the_built_in_one(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('["我的/model"]\ninput = 1\noutput = 2\n["gpt-4o"]\ninput = 0\noutput = 0\n', "utf-8")
    prices = read_prices(path)
    assert prices["我的/model"] == Price(1.0, 2.0)
    assert prices["gpt-4o"] == Price(0.0, 0.0)
    assert prices["gpt-4.1"] == PRICES["gpt-4.1"]


@pytest.mark.parametrize(
    "text",
    ["[m]\ninput = 1", "[m]\ninput = 1\noutput = -2", '[m]\ninput = 1\noutput = "2"', "[m]\na = 1", "m = 3", "["],
)
def test_what_is_no_price_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match="price"):
        read_prices(path)


def test_a_budget_of_money_needs_prices() -> None:
    require_prices(Budget(usd=1), PRICES, ["gpt-4o"])
    require_prices(Budget(calls=1), PRICES, ["my-model"])
    with pytest.raises(UsageError, match="no price is known for my-model"):
        require_prices(Budget(usd=1), PRICES, ["gpt-4o", "my-model"])


def test_estimates_count_bytes_pictures_and_the_reply() -> None:
    request = ChatRequest("m", (ChatMessage("user", "向左转", images=("data:x",)),), max_tokens=50)
    assert estimate_tokens(request, 1024) == (9 // 3 + 8 + 1000, 50)
    assert estimate_tokens(ChatRequest("m", ()), 1024) == (0, 1024)
