"""From grading settings to the order that graders work by, and to the limits of the calls that they may make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from grading.credit import CreditSettings, parse_rule
from grading.grade import parse_weights
from grading.grader import GraderSettings, Presentation, Reads
from grading.order import GradingOrder, NoModel
from grading.prompt_files import Name, read_prompt
from grading.summarizer import SummarizerSettings
from grading.task_summary import whole_for_context
from rollouts.calls.endpoint import OPENAI_URL, CallSettings, Endpoint
from rollouts.calls.limits import Budget, Limits, Spending
from rollouts.calls.prices import PRICES, Price, read_prices, require_prices
from rollouts.errors import UsageError
from rollouts.grading_config import GradingConfig
from rollouts.prompt_files import Prompt
from rollouts.settings import flag

DEFAULT_LANGUAGE = "en"
_READS: Mapping[str, Reads] = {"transcript": "transcript", "summaries": "summaries"}
_PRESENTATIONS: Mapping[str, Presentation] = {"forward": "forward", "reversed": "reversed", "padded": "padded"}
_NO_MODEL: Mapping[str, NoModel] = {"heuristic": "heuristic", "explicit": "explicit"}


def make_order(config: GradingConfig, run_id: str, out: str, may_call: bool = True) -> GradingOrder | None:
    """The order for the run `run_id` below `out`; None where nothing is to be judged.

    Errors: `UsageError`, before anything is written or sent: a wrong value, no endpoint, no key, an unknown price
    under a budget of money. Where no model is to be called (`may_call`), neither endpoint nor key has to be there.
    """
    summarizer = _summarizer(config)
    order = GradingOrder(
        run_id=run_id,
        out=out,
        grader=_grader(config, summarizer),
        summarizer=summarizer,
        credit=credit_settings(config),
        weights=parse_weights(config.weights),
        repeats=config.repeat,
        endpoint=_endpoint(config, may_call) if config.calls_models else None,
        calls=_call_settings(config),
        prices=price_table(config),
    )
    require_prices(limits_of(config).budget, order.prices, order.models)
    return order if order.grader or order.summarizer else None


def credit_settings(config: GradingConfig) -> CreditSettings | None:
    """The credit rule, or None; gamma is clamped to [0, 1]. Errors: `UsageError`."""
    if config.credit_rule == "none":
        return None
    return CreditSettings(parse_rule(config.credit_rule), min(max(config.gamma, 0.0), 1.0))


def limits_of(config: GradingConfig, spent: Spending | None = None) -> Limits:
    """How fast and how much the whole run may call; `spent` is what earlier starts of it did. Errors: `UsageError`."""
    return Limits(
        in_flight=config.in_flight,
        requests_per_minute=config.requests_per_minute,
        tokens_per_minute=config.tokens_per_minute,
        budget=Budget(config.budget_calls, config.budget_tokens, config.budget_usd),
        spent=spent or Spending(),
        retry_after_cap_s=config.retry_after_cap_s,
    )


def price_table(config: GradingConfig) -> Mapping[str, Price]:
    """The built-in prices with the user's over them. Errors: `UsageError`."""
    return PRICES if config.prices is None else read_prices(Path(config.prices))


def _summarizer(config: GradingConfig) -> SummarizerSettings | None:
    model = config.summarizer_model or config.grader_model
    if config.summarize != "llm" or model is None:
        return None
    own = _own_prompt("summarizer", config.summarizer_prompt, config.language)
    return SummarizerSettings(model, language=_language(config, own), own_prompt=own)


def _own_prompt(name: Name, path: str | None, language: str | None) -> Prompt | None:
    """The user's own prompt. Errors: `UsageError`, also where it is not in the `language` asked for."""
    if path is None:
        return None
    prompt = read_prompt(name, Path(path))
    if language not in (None, prompt.ref.language):
        raise UsageError(f'{flag("language")} is {language} and prompt "{path}" says language: {prompt.ref.language}')
    return prompt


def _language(config: GradingConfig, own: Prompt | None) -> str:
    return own.ref.language if own else config.language or DEFAULT_LANGUAGE


def _grader(config: GradingConfig, summarizer: SummarizerSettings | None) -> GraderSettings | NoModel | None:
    if config.grader != "llm" or config.grader_model is None:
        return _NO_MODEL.get(config.grader)
    reads, own = _READS[config.grade_from], _own_prompt("grader", config.grader_prompt, config.language)
    settings = GraderSettings(
        config.grader_model,
        language=_language(config, own),
        reads=reads,
        summarizer_id=summarizer.summarizer_id if summarizer and reads == "summaries" else None,
        presentation=_PRESENTATIONS[config.presentation],
        temperature=config.grader_temperature,
        own_prompt=own,
    )
    return replace(settings, caps=replace(settings.caps, whole=_whole(config, settings)))


def _whole(config: GradingConfig, settings: GraderSettings) -> int:
    """Most characters of an episode that the grader reads. A reply that was cut off may be twice as long at last."""
    if config.grader_context is not None:
        return whole_for_context(config.grader_context, 2 * settings.max_tokens, settings.language)
    return config.grader_chars or settings.caps.whole


def _endpoint(config: GradingConfig, may_call: bool) -> Endpoint:
    found = Endpoint.from_environment(config.base_url, config.key_file)
    if not may_call:
        return found or Endpoint(OPENAI_URL)
    if found is None:
        raise UsageError(
            f"{', '.join(config.models)} cannot be asked, for no endpoint is known: set OPENAI_API_KEY or "
            f"OPENAI_BASE_URL, or give {flag('base_url')}; {flag('grade')} heuristic needs none"
        )
    found.read_key()
    return found


def _call_settings(config: GradingConfig) -> CallSettings:
    return CallSettings(
        time_limit_s=config.request_timeout_s,
        tries=config.request_tries,
        retry_after_cap_s=config.retry_after_cap_s,
    )
