"""How the policies of a run call models: where, how patiently, and whether there is anybody to be called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rollouts.calls.endpoint import OPENAI_URL, CallSettings, Endpoint, find_key
from rollouts.calls.prices import require_prices
from rollouts.commands.grading_order import limits_of, price_table
from rollouts.config import RunConfig
from rollouts.errors import UsageError
from rollouts.grading_config import GradingConfig
from rollouts.policies.model_settings import PROVIDERS
from rollouts.policy_calls import MENDABLE, CallOrder
from rollouts.records import PolicyDescription
from rollouts.settings import flag

POLICY_KEY = "POLICY_API_KEY"


def make_call_order(
    config: RunConfig, grading: GradingConfig, players: Iterable[PolicyDescription], may_call: bool = True
) -> CallOrder | None:
    """The order for those of `players` that are models behind an endpoint; None where there is none.

    Errors: `UsageError`, before anything is written or sent: no endpoint, no key, an unknown price under a budget of
    money. Where no model is to be called (`may_call`), neither endpoint nor key has to be there.
    """
    asked = [who for who in players if who.provider in PROVIDERS]
    if not asked:
        return None
    prices = price_table(grading)
    require_prices(limits_of(grading).budget, prices, [who.model or who.name for who in asked])
    needs = {"images"} if config.model_settings.sees else set[str]()
    needs |= {"logprobs"} if config.answer == "letters" else set[str]()
    settings = CallSettings(
        time_limit_s=grading.request_timeout_s,
        tries=grading.request_tries,
        retry_after_cap_s=grading.retry_after_cap_s,
        required=frozenset(needs),
        mendable=MENDABLE,
    )
    return CallOrder(_endpoint(config, grading, asked, may_call), settings, prices)


def _endpoint(
    config: RunConfig, grading: GradingConfig, asked: Iterable[PolicyDescription], may_call: bool
) -> Endpoint:
    found = Endpoint.from_environment(config.policy_base_url or grading.base_url, grading.key_file)
    if not may_call:
        return found or Endpoint(OPENAI_URL)
    if found is None:
        names = ", ".join(who.name for who in asked)
        raise UsageError(
            f"{names} cannot be asked, for no endpoint is known: set OPENAI_API_KEY or OPENAI_BASE_URL, or give "
            f"{flag('base_url')} or {flag('policy_base_url')}"
        )
    if config.policy_base_url and find_key(POLICY_KEY, grading.key_file):
        found = replace(found, key_env=POLICY_KEY)
    found.read_key()
    return found
