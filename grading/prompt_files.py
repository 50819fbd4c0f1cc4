"""Prompts: text files in `grading/prompts/`, one for each task and language, with an id, a version and a hash.

A file starts with `id:`, `version:` and `language:` lines; sections follow, each under `=== name ===`. `$word` is a
place to fill (`$$` is a dollar). The hash covers the whole file, so that any change of wording shows in every record
made with it. A user's own file is a copy of one of ours with other words: the same sections with the same places.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal, get_args

from rollouts.calls.replies import Cause, shown
from rollouts.errors import UsageError

Name = Literal["grader", "summarizer"]
Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
_SECTION = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PromptRef:
    """What a record keeps of its prompt: id, version, language and the SHA-256 (hex) of the file's text."""

    id: str
    version: int
    language: Language
    sha256: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt file: its reference, its whole text, and its sections by name."""

    ref: PromptRef
    text: str
    sections: Mapping[str, str]

    def fill(self, section: str, **values: object) -> str:
        """The section with every `$word` filled; a `$` inside the values stays as it is."""
        return Template(self.sections[section]).substitute(values)

    def cause(self, cause: Cause) -> str:
        """What the model is told about a reply refused for `cause`, in the prompt's language."""
        return _pairs(self.sections["causes"]).get(cause.value, cause.value)


@cache
def load_prompt(name: Name, language: str) -> Prompt:
    """The prompt `grader` or `summarizer` in `en` or `zh`; raises `UsageError` naming the choices."""
    if language not in LANGUAGES:
        raise UsageError(f"language {language!r} is not known, choose one of: {', '.join(LANGUAGES)}")
    text = files("grading").joinpath("prompts", f"{name}.{language}.txt").read_text(encoding="utf-8")
    return parse_prompt(text)


def read_prompt(name: Name, path: Path) -> Prompt:
    """A user's own prompt in the place of `name`. Raises `UsageError` that names the file and what is wrong with it."""
    try:
        prompt = parse_prompt(path.read_text(encoding="utf-8-sig"))
        _check_places(prompt, load_prompt(name, prompt.ref.language))
    except OSError as error:
        raise UsageError(f'prompt "{path}": {error.strerror or error}') from None
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
            _pairs(prompt.sections[name])
            continue
        template, wanted = Template(prompt.sections[name]), set(Template(text).get_identifiers())
        if not template.is_valid():
            raise ValueError(f'section "{name}" has a dollar that is no place to fill: write $$ for a dollar')
        if missing := wanted - set(template.get_identifiers()):
            raise ValueError(f'section "{name}" lacks ${min(missing)}')
        if strange := set(template.get_identifiers()) - wanted:
            raise ValueError(f'section "{name}" has ${min(strange)}, which is not filled there')


def _pairs(text: str) -> dict[str, str]:
    """Lines of `name: text`. Raises `ValueError` naming one that is none."""
    lines = [(line, *line.partition(": ")) for line in text.splitlines() if line]
    if wrong := [line for line, _, colon, _ in lines if not colon]:
        raise ValueError(f'"{shown(wrong[0])}" is no line of the form "name: text"')
    return {name: words for _, name, _, words in lines}


def _head(text: str) -> tuple[str, int, Language]:
    """Id, version and language. Raises `ValueError`."""
    facts = _pairs(text)
    if missing := [name for name in ("id", "version", "language") if not facts.get(name, "").strip()]:
        raise ValueError(f'its head has no "{missing[0]}: …" line')
    if not facts["version"].isdecimal():
        raise ValueError(f"version is {shown(facts['version'])}, a whole number is required")
    for language in LANGUAGES:
        if facts["language"] == language:
            return facts["id"], int(facts["version"]), language
    raise ValueError(f"language is {shown(facts['language'])}, not one of {' | '.join(LANGUAGES)}")


def parse_prompt(text: str) -> Prompt:
    """A prompt file's text taken apart. Raises `ValueError` where its head or a line of causes is not as it must be."""
    head, *parts = _SECTION.split(text)
    id, version, language = _head(head)
    digest = hashlib.sha256(text.encode()).hexdigest()
    sections = {name: body.removesuffix("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return Prompt(PromptRef(id, version, language, digest), text, sections)
