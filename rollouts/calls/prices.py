"""How many tokens, and what they cost. The user can override prices; an unknown model has none, never a guessed one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rollouts.calls.chat_records import ChatRequest
from rollouts.calls.limits import Budget
from rollouts.errors import UsageError
from rollouts.settings import unreadable

BYTES_A_TOKEN = 3
TOKENS_A_PICTURE = 1000
_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens: fresh input, input read from the endpoint's cache, output."""

    input: float
    output: float
    cached: float | None = None

    def cost_usd(self, tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> float:
        """`tokens_cached` are part of `tokens_in`; without a price of their own they cost as much as fresh ones."""
        cached = min(tokens_cached, tokens_in)
        cached_price = self.input if self.cached is None else self.cached
        return ((tokens_in - cached) * self.input + cached * cached_price + tokens_out * self.output) / 1e6


# OpenAI's list prices (its price page, as reported in March to June 2026); override them where yours differ.
PRICES: Mapping[str, Price] = {
    "gpt-4o": Price(2.50, 10.00, 1.25),
    "gpt-4o-mini": Price(0.15, 0.60, 0.075),
    "gpt-4.1": Price(2.00, 8.00, 0.50),
    "gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "gpt-4.1-nano": Price(0.10, 0.40, 0.025),
    "gpt-5": Price(1.25, 10.00, 0.125),
    "gpt-5-mini": Price(0.25, 2.00, 0.025),
    "gpt-5-nano": Price(0.05, 0.40, 0.005),
}


def find_price(prices: Mapping[str, Price], model: str) -> Price | None:
    """The price of `model`, also under the name without a date (`gpt-4o-2024-08-06`); None where it is unknown."""
    return prices.get(model) or prices.get(_DATED.sub("", model))


def estimate_tokens(request: ChatRequest, reply_tokens: int) -> tuple[int, int]:
    """Tokens in and out that a request will hardly need more of: 3 bytes of UTF-8 a token, 1,000 tokens a picture.

    `reply_tokens` stands in where the request sets no max_tokens.
    """
    text = sum(len(message.text.encode("utf-8", "replace")) // BYTES_A_TOKEN + 8 for message in request.messages)
    pictures = sum(len(message.images) for message in request.messages)
    return text + pictures * TOKENS_A_PICTURE, reply_tokens if request.max_tokens is None else request.max_tokens


def require_prices(budget: Budget, prices: Mapping[str, Price], models: Iterable[str]) -> None:
    """A budget of money needs to know what each model costs. Raises `UsageError` where it cannot."""
    unknown = sorted({model for model in models if find_price(prices, model) is None})
    if budget.usd is not None and unknown:
        raise UsageError(
            f"budget of {budget.usd:g} USD: no price is known for {', '.join(unknown)}; "
            "give one in a price file, or limit calls or tokens instead"
        )


def read_prices(path: Path) -> dict[str, Price]:
    """The built-in table with a user's TOML file over it. Raises `UsageError` on anything that is no price.

    ["my-model"]
    input = 0.2
    output = 0.8
    cached = 0.1    # optional
    """
    try:
        entries = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"price file {path}: {unreadable(error)}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"price file {path}: {error}") from None
    return {**PRICES, **{model: _read_price(model, entry) for model, entry in entries.items()}}


def _read_price(model: str, entry: Any) -> Price:
    known = [f.name for f in fields(Price)]
    wanted = f"price of {model!r}: wants input and output (and perhaps cached), USD for a million tokens"
    if not isinstance(entry, dict) or not {"input", "output"} <= entry.keys() <= set(known):
        raise UsageError(f"{wanted}; got {entry!r}")
    if not all(_is_amount(value) for value in entry.values()):
        raise UsageError(f"{wanted}, each 0 or more; got {entry!r}")
    return Price(**{name: float(value) for name, value in entry.items()})


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
