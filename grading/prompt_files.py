"""The prompts of graders and summarizers: `grading/prompts/`, in the languages that there are."""

from __future__ import annotations

from typing import Literal, get_args

from rollouts.errors import UsageError
from rollouts.prompt_files import Prompt, read_prompt

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


def load_prompt(name: str, language: str) -> Prompt:
    """The prompt `grader` or `summarizer` in `en` or `zh`; raises `UsageError` naming the choices."""
    if language not in LANGUAGES:
        raise UsageError(f"language {language!r} is not known, choose one of: {', '.join(LANGUAGES)}")
    return read_prompt("grading", name, language)
