"""How a run's episodes are to be graded: one frozen GradingConfig. None of it is part of a run's identity.

Knows nothing of graders: what weights, credit rules and languages there are is the business of whoever makes an order
of work from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouts.errors import UsageError
from rollouts.settings import Given, Kind, convert, flag, unknown, why_no_file

GRADERS = ("none", "heuristic", "llm")
LATE_GRADERS = (*GRADERS, "explicit")
"""People's feedback can only come after an episode: `explicit` is for a run that was played."""
SUMMARIZERS = ("none", "llm")
READS = ("transcript", "summaries")
PRESENTATIONS = ("forward", "reversed", "padded")


@dataclass(frozen=True)
class GradingConfig:
    """Everything that grading can be told. `GradingConfig.read` makes checked ones; the constructor checks nothing.

    `grade` and `credit` are None where nobody said: then the heuristic grader, and `events` if there are grades at all.
    `grader_model` and `summarizer_model` are names as the endpoint knows them; a summarizer without one of its own uses
    the grader's; `grader_prompt` and `summarizer_prompt` are files in the place of the prompts of `language`, which is
    None where nobody said: then English, or the files' own.
    `base_url` None is the environment's. `key_file` names a file with lines like `OPENAI_API_KEY=…`, on every machine
    that calls. `grader_chars` is the most that a grader reads of one episode;
    `grader_context` derives it from the tokens that its model takes.
    `in_flight` bounds the requests of the whole run; `graders` and `summarizers` are actors, each with up to `lanes`
    units under way (None: enough for `in_flight`). `prices` is a TOML file.
    """

    grade: str | None = None
    summarize: str = "none"
    grade_from: str = "transcript"
    credit: str | None = None
    grader_model: str | None = None
    summarizer_model: str | None = None
    base_url: str | None = None
    key_file: str | None = None
    language: str | None = None
    grader_prompt: str | None = None
    summarizer_prompt: str | None = None
    presentation: str = "forward"
    grader_chars: int | None = None
    grader_context: int | None = None
    grader_temperature: float = 0.0
    weights: str = "0.45,0.30,0.25"
    gamma: float = 0.9
    repeat: int = 1
    graders: int = 1
    summarizers: int = 1
    lanes: int | None = None
    in_flight: int = 16
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget_calls: int | None = None
    budget_tokens: int | None = None
    budget_usd: float | None = None
    prices: str | None = None
    request_timeout_s: float = 60.0
    request_tries: int = 6
    retry_after_cap_s: float = 60.0

    @property
    def grader(self) -> str:
        """Who grades: the heuristic where nobody said otherwise."""
        return self.grade or "heuristic"

    @property
    def credit_rule(self) -> str:
        """The rule as it is written, or `none`."""
        return self.credit or ("none" if self.grader == "none" else "events")

    @property
    def units_at_once(self) -> int:
        """Units that each actor has under way: with fewer, requests could not reach `in_flight`."""
        actors = min(self.graders, self.summarizers)
        return self.lanes or max(_FEWEST_LANES, -(-self.in_flight // actors))

    @property
    def calls_models(self) -> bool:
        return "llm" in (self.grader, self.summarize)

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that is called, each once."""
        wanted = ((self.grader, self.grader_model), (self.summarize, self.summarizer_model or self.grader_model))
        return tuple(dict.fromkeys(model for who, model in wanted if who == "llm" and model))

    def as_dict(self) -> dict[str, Any]:
        """For the evidence: plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, given: Mapping[str, Given], graders: tuple[str, ...] = GRADERS) -> GradingConfig:
        """The checked configuration from what was given (`settings.layers`); names that are not ours are left alone.

        Errors: `UsageError` that names the thing, the value and the choices.
        """
        ours = {name: item for name, item in given.items() if name in GRADING_KINDS}
        values: dict[str, Any] = {name: convert(item, GRADING_KINDS[name]) for name, item in ours.items()}
        source = {name: ours[name].source if name in ours else flag(name) for name in GRADING_KINDS}
        config = cls(**values)
        _check_choices(config, source, graders)
        _check_numbers(config, source)
        _check_models(config, source)
        _check_prompts(config, source)
        _check_files(config, source)
        _check_key_file(config, source)
        return config


GRADING_KINDS: dict[str, Kind] = {
    "grade": "text",
    "summarize": "text",
    "grade_from": "text",
    "credit": "text",
    "grader_model": "text",
    "summarizer_model": "text",
    "base_url": "text",
    "key_file": "text",
    "language": "text",
    "grader_prompt": "text",
    "summarizer_prompt": "text",
    "presentation": "text",
    "grader_chars": "int",
    "grader_context": "int",
    "grader_temperature": "float",
    "weights": "numbers",
    "gamma": "float",
    "repeat": "int",
    "graders": "int",
    "summarizers": "int",
    "lanes": "int",
    "in_flight": "int",
    "requests_per_minute": "int",
    "tokens_per_minute": "int",
    "budget_calls": "int",
    "budget_tokens": "int",
    "budget_usd": "float",
    "prices": "text",
    "request_timeout_s": "float",
    "request_tries": "int",
    "retry_after_cap_s": "float",
}
_AT_LEAST_1 = (
    *("repeat", "graders", "summarizers", "lanes", "in_flight", "requests_per_minute", "tokens_per_minute"),
    *("request_tries", "grader_chars", "grader_context"),
)
_AT_LEAST_0 = ("budget_calls", "budget_tokens", "budget_usd", "retry_after_cap_s", "grader_temperature")
_FILES = ("prices", "grader_prompt", "summarizer_prompt")
_BIGGEST = 2**31 - 1
_MOST_REPEATS = 1_000
_FEWEST_LANES = 16


def _check_choices(config: GradingConfig, source: Mapping[str, str], graders: tuple[str, ...]) -> None:
    for name, value, choices in (
        ("grade", config.grader, graders),
        ("summarize", config.summarize, SUMMARIZERS),
        ("grade_from", config.grade_from, READS),
        ("presentation", config.presentation, PRESENTATIONS),
    ):
        if value not in choices:
            raise unknown(source[name], value, choices)


def _check_numbers(config: GradingConfig, source: Mapping[str, str]) -> None:
    for name in _AT_LEAST_1:
        value: int | None = getattr(config, name)
        most = _MOST_REPEATS if name == "repeat" else _BIGGEST
        if value is not None and not 1 <= value <= most:
            raise UsageError(f"{source[name]} is {value}: must be a whole number from 1 to {most}")
    for name in _AT_LEAST_0:
        amount: float | None = getattr(config, name)
        if amount is not None and amount < 0:
            raise UsageError(f"{source[name]} is {amount:g}: must be 0 or above")
    if config.request_timeout_s <= 0:
        raise UsageError(f"{source['request_timeout_s']} is {config.request_timeout_s:g}: must be above 0 seconds")


def _check_models(config: GradingConfig, source: Mapping[str, str]) -> None:
    """What is wanted must be there to be had: a model for each `llm`, summaries for whoever reads them."""
    for name in ("grader_model", "summarizer_model", "base_url", "key_file", *_FILES):
        if getattr(config, name) == "":
            raise UsageError(f"{source[name]} is empty")
    if config.grade is None and config.grader_model and config.summarize != "llm":
        raise UsageError(f"{source['grader_model']} is for {flag('grade')} llm: give that too")
    if config.grader == "llm" and config.grader_model is None:
        raise UsageError(f"{source['grade']} llm wants a model: give {flag('grader_model')} NAME")
    if config.summarize == "llm" and not (config.summarizer_model or config.grader_model):
        raise UsageError(f"{source['summarize']} llm wants a model: give {flag('summarizer_model')} NAME")
    if config.grade_from == "summaries" and config.grader != "llm":
        raise UsageError(f"{source['grade_from']} summaries is for {flag('grade')} llm: no other grader reads text")
    for name, value in (("grade_from", config.grade_from), ("credit", config.credit)):
        if value in ("summaries", "summary") and config.summarize != "llm":
            raise UsageError(f"{source[name]} {value} wants summaries: give {flag('summarize')} llm too")


def _check_prompts(config: GradingConfig, source: Mapping[str, str]) -> None:
    """Prompts are for models, and what fits is said once."""
    if config.grader_prompt is not None and config.grader != "llm":
        raise UsageError(f"{source['grader_prompt']} is for {flag('grade')} llm: give that too")
    if config.summarizer_prompt is not None and config.summarize != "llm":
        raise UsageError(f"{source['summarizer_prompt']} is for {flag('summarize')} llm: give that too")
    if config.language is not None and not config.calls_models:
        raise UsageError(
            f"{source['language']} {config.language} is for {flag('grade')} llm or {flag('summarize')} llm"
        )
    if config.grader_temperature and config.grader != "llm":
        raise UsageError(f"{source['grader_temperature']} is for {flag('grade')} llm: give that too")
    if config.repeat > 1 and config.grader != "llm":
        raise UsageError(f"{source['repeat']} {config.repeat} is for {flag('grade')} llm: no other grader varies")
    if config.grader_chars is not None and config.grader_context is not None:
        raise UsageError(
            f"{source['grader_chars']} and {source['grader_context']} both say what fits: give one of them"
        )


def _check_key_file(config: GradingConfig, source: Mapping[str, str]) -> None:
    """Absolute, for workers have folders of their own. Whoever calls reads it: that machine may be another one."""
    if config.key_file is not None and not Path(config.key_file).is_absolute():
        raise UsageError(
            f'{source["key_file"]} is "{config.key_file}": must be an absolute path, on all machines that call'
        )


def _check_files(config: GradingConfig, source: Mapping[str, str]) -> None:
    for name in _FILES:
        path: str | None = getattr(config, name)
        if path is not None and (fault := why_no_file(Path(path))):
            raise UsageError(f'{source[name]} "{path}": {fault}')
