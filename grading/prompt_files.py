"""The prompts of graders and summarizers: `grading/prompts/`, one for each language, or a user's own.

A user's own file is a copy of one of ours with other words: the same sections with the same places.
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Literal

from rollouts.errors import UsageError
from rollouts.prompt_files import LANGUAGES, Prompt, pairs_of, parse_prompt, shipped_prompt
from rollouts.settings import unreadable

Name = Literal["grader", "summarizer"]


def load_prompt(name: Name, language: str) -> Prompt:
    """The prompt `grader` or `summarizer` in `en` or `zh`; raises `UsageError` naming the choices."""
    if language not in LANGUAGES:
        raise UsageError(f"language {language!r} is not known, choose one of: {', '.join(LANGUAGES)}")
    return shipped_prompt("grading", name, language)


def read_prompt(name: Name, path: Path) -> Prompt:
    """A user's own prompt in the place of `name`. Raises `UsageError` that names the file and what is wrong with it."""
    try:
        prompt = parse_prompt(path.read_text(encoding="utf-8-sig"))
        _check_places(prompt, load_prompt(name, prompt.ref.language))
    except OSError as error:
        raise UsageError(f'prompt "{path}": {unreadable(error)}') from None
    except UnicodeDecodeError as error:
        raise UsageError(f'prompt "{path}" is not UTF-8 text: {error}') from None
    except ValueError as error:
        raise UsageError(f'prompt "{path}": {error}; begin with a copy of grading/prompts/{name}.en.txt') from None
    return prompt


def _check_places(prompt: Prompt, ours: Prompt) -> None:
    """Raises `ValueError` where a section of ours is missing, or its places are others."""
    for name, text in ours.sections.items():
        if name not in prompt.sections:
            raise ValueError(f'the section "=== {name} ===" is missing')
        if name == "causes":
            pairs_of(prompt.sections[name])
            continue
        template, wanted = Template(prompt.sections[name]), set(Template(text).get_identifiers())
        if not template.is_valid():
            raise ValueError(f'section "{name}" has a dollar that is no place to fill: write $$ for a dollar')
        if missing := wanted - set(template.get_identifiers()):
            raise ValueError(f'section "{name}" lacks ${min(missing)}')
        if strange := set(template.get_identifiers()) - wanted:
            raise ValueError(f'section "{name}" has ${min(strange)}, which is not filled there')
