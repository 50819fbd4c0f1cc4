"""How grading is told: three layers, one line for whatever is wrong, and no part of a run's identity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rollouts.config import load_config, load_configs
from rollouts.errors import UsageError
from rollouts.grading_config import LATE_GRADERS, GradingConfig

LLM = {"grade": "llm", "grader_model": "m"}


def load(flags: Mapping[str, object] | None = None, toml: Path | None = None, **env: str) -> GradingConfig:
    return load_configs(flags or {}, toml, env)[1]


def test_nothing_given_is_the_heuristic_grader_with_event_credit_and_no_model() -> None:
    config = load()
    assert (config.grade, config.grader, config.summarize) == (None, "heuristic", "none")
    assert (config.credit, config.credit_rule, load({"grade": "none"}).credit_rule) == (None, "events", "none")
    assert (config.weights, config.gamma, config.in_flight) == ("0.45,0.30,0.25", 0.9, 16)
    assert not config.calls_models
    assert config.models == ()


def test_flags_win_over_the_file_and_the_file_over_the_environment(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text('grade = "llm"\ngrader_model = "file"\nbudget_usd = 1.5\ntics = 5\n')
    config = load({"grader_model": "flag"}, toml, DOOM_ROLLOUTS_GRADER_MODEL="env", DOOM_ROLLOUTS_IN_FLIGHT="3")
    assert (config.grader, config.grader_model, config.budget_usd, config.in_flight) == ("llm", "flag", 1.5, 3)


def test_one_file_tells_both_what_to_play_and_how_to_grade(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text('tics = 5\ngrade = "none"\n')
    run, grading = load_configs({}, toml, {})
    assert (run.tics, grading.grader) == (5, "none")
    assert load_config({}, toml, {}).tics == 5


def test_a_summarizer_without_a_model_of_its_own_uses_the_graders() -> None:
    both = load({"grade": "llm", "summarize": "llm", "grader_model": "judge"})
    assert both.models == ("judge",)
    apart = load({"grade": "llm", "summarize": "llm", "grader_model": "judge", "summarizer_model": "writer"})
    assert apart.models == ("judge", "writer")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"grade": "strict"}, ["--grade", "strict", "none", "heuristic", "llm"]),
        ({"grade": "explicit"}, ["--grade", "explicit", "none", "heuristic", "llm"]),
        ({"grader_model": "m"}, ["--grader-model", "--grade llm"]),
        ({"grade": "llm"}, ["--grade llm", "--grader-model"]),
        ({"grade": "llm", "grader_model": ""}, ["--grader-model", "empty"]),
        ({"summarize": "gpt"}, ["--summarize", "gpt", "none", "llm"]),
        ({"summarize": "llm"}, ["--summarize llm", "--summarizer-model"]),
        ({"grade_from": "frames"}, ["--grade-from", "frames", "transcript", "summaries"]),
        ({"grade_from": "summaries"}, ["--grade-from summaries", "--grade llm"]),
        (
            {"grade": "llm", "grader_model": "m", "grade_from": "summaries"},
            ["--grade-from summaries", "--summarize llm"],
        ),
        ({"credit": "summary"}, ["--credit summary", "--summarize llm"]),
        ({"presentation": "sideways"}, ["--presentation", "sideways", "reversed", "padded"]),
        ({"repeat": "0"}, ["--repeat", "0", "from 1"]),
        ({"repeat": 3}, ["--repeat 3", "--grade llm"]),
        ({"grader_temperature": 0.7}, ["--grader-temperature", "--grade llm"]),
        ({**LLM, "grader_temperature": -1}, ["--grader-temperature", "-1", "0 or above"]),
        ({"language": "fr"}, ["--language fr", "--grade llm", "--summarize llm"]),
        ({"repeat": "1e3"}, ["--repeat", "1e3", "whole number"]),
        ({"in_flight": 0}, ["--in-flight", "0"]),
        ({"lanes": -1}, ["--lanes", "-1"]),
        ({"graders": 0}, ["--graders", "0"]),
        ({"summarizers": "none"}, ["--summarizers", "none", "whole number"]),
        ({"requests_per_minute": 0}, ["--requests-per-minute", "0"]),
        ({"tokens_per_minute": -5}, ["--tokens-per-minute", "-5"]),
        ({"budget_calls": -1}, ["--budget-calls", "-1", "0 or above"]),
        ({"budget_usd": "-0.5"}, ["--budget-usd", "-0.5", "0 or above"]),
        ({"budget_usd": "nan"}, ["--budget-usd", "nan", "finite"]),
        ({"gamma": "inf"}, ["--gamma", "inf", "finite"]),
        ({"request_timeout_s": 0}, ["--request-timeout-s", "0", "above 0"]),
        ({"request_tries": 0}, ["--request-tries", "0"]),
        ({"retry_after_cap_s": -1}, ["--retry-after-cap-s", "-1"]),
        ({"prices": "/"}, ["--prices", '"/"', "is a folder, not a file"]),
        ({**LLM, "grader_prompt": "/"}, ["--grader-prompt", "is a folder, not a file"]),
        ({"prices": "/no/such/file.toml"}, ["--prices", "/no/such/file.toml", "no such file"]),
        ({**LLM, "grader_prompt": "/no/prompt.txt"}, ["--grader-prompt", "/no/prompt.txt", "no such file"]),
        ({**LLM, "grader_prompt": ""}, ["--grader-prompt", "empty"]),
        ({"grader_prompt": "/no/prompt.txt"}, ["--grader-prompt", "--grade llm"]),
        ({**LLM, "summarizer_prompt": "/no/prompt.txt"}, ["--summarizer-prompt", "--summarize llm"]),
        ({**LLM, "grader_context": 0}, ["--grader-context", "0", "from 1"]),
        ({**LLM, "grader_context": 9000, "grader_chars": 9000}, ["--grader-context", "--grader-chars", "one of them"]),
    ],
)
def test_a_wrong_value_is_one_line_naming_flag_value_and_choices(flags: Mapping[str, object], named: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        load(flags)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in named if word not in message] == []


@pytest.mark.parametrize(
    ("flags", "units"),
    [
        ({}, 16),
        ({"in_flight": 100}, 100),
        ({"in_flight": 100, "graders": 4, "summarizers": 3}, 34),
        ({"in_flight": 100, "lanes": 5}, 5),
    ],
)
def test_actors_have_enough_under_way_to_fill_what_may_be_in_flight(flags: Mapping[str, object], units: int) -> None:
    assert load(flags).units_at_once == units


@pytest.mark.parametrize("written", ["[0.5, 0.3, 0.2]", "['0.5', '0.3', '0.2']", "'0.5,0.3,0.2'"])
def test_weights_in_a_file_are_a_list_or_text(tmp_path: Path, written: str) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text(f"weights = {written}\n")
    assert load({}, toml).weights == "0.5,0.3,0.2"


@pytest.mark.parametrize("written", ["[0.5, true]", "[[1]]", "{goal = 1}", "[0.5, nan]"])
def test_weights_that_are_no_numbers_are_named_with_their_file(tmp_path: Path, written: str) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text(f"weights = {written}\n")
    with pytest.raises(UsageError, match=rf"a number of weights in {toml} is .*: must be a finite number"):
        load({}, toml)


def test_people_grade_a_run_that_was_played() -> None:
    assert load_configs({"grade": "explicit"}, None, {}, LATE_GRADERS)[1].grader == "explicit"


def test_a_word_close_to_a_setting_is_suggested() -> None:
    with pytest.raises(UsageError, match='did you mean "DOOM_ROLLOUTS_GRADER_MODEL"'):
        load(DOOM_ROLLOUTS_GRADER_MODLE="x")


def test_grading_is_no_part_of_a_runs_identity() -> None:
    """Identity is made from RunConfig alone: graded in another way it is the same, and so is its record."""
    plain = load_configs({"policies": ["oracle"]}, None, {})[0]
    flags = {"grade": "llm", "grader_model": "m", "summarize": "llm", "weights": "1,0,0", "budget_calls": 3}
    graded = load_configs({"policies": ["oracle"], **flags}, None, {})[0]
    assert graded == plain
    assert not {"grade", "grader_model", "budget_calls"} & graded.as_dict().keys()
