"""Prompts: text files, one for each task and language, with an id, a version and a hash.

A file starts with `id:`, `version:` and `language:` lines; sections follow, each under `=== name ===`. `$word` is a
place to fill (`$$` is a dollar). The hash covers the whole file, so that any change of wording shows in every record
made with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal, get_args

from rollouts.settings import one_line

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

    def cause(self, code: str) -> str:
        """What the model is told about a reply refused for `code`, in the prompt's language."""
        return pairs_of(self.sections["causes"]).get(code, code)


@cache
def shipped_prompt(package: str, name: str, language: str) -> Prompt:
    """`prompts/<name>.<language>.txt` of an installed package."""
    text = files(package).joinpath("prompts", f"{name}.{language}.txt").read_text(encoding="utf-8")
    return parse_prompt(text)


def pairs_of(text: str) -> dict[str, str]:
    """Lines of `name: text`. Raises `ValueError` naming one that is none."""
    lines = [(line, *line.partition(": ")) for line in text.splitlines() if line]
    if wrong := [line for line, _, colon, _ in lines if not colon]:
        raise ValueError(f'"{one_line(wrong[0], 80)}" is no line of the form "name: text"')
    return {name: words for _, name, _, words in lines}


def _head(text: str) -> tuple[str, int, Language]:
    """Id, version and language. Raises `ValueError`."""
    facts = pairs_of(text)
    if missing := [name for name in ("id", "version", "language") if not facts.get(name, "").strip()]:
        raise ValueError(f'its head has no "{missing[0]}: …" line')
    if not facts["version"].isdecimal():
        raise ValueError(f"version is {one_line(facts['version'], 80)}, a whole number is required")
    for language in LANGUAGES:
        if facts["language"] == language:
            return facts["id"], int(facts["version"]), language
    raise ValueError(f"language is {one_line(facts['language'], 80)}, not one of {' | '.join(LANGUAGES)}")


def parse_prompt(text: str) -> Prompt:
    """A prompt file's text taken apart. Raises `ValueError` where its head or a line of causes is not as it must be."""
    head, *parts = _SECTION.split(text)
    id, version, language = _head(head)
    digest = hashlib.sha256(text.encode()).hexdigest()
    sections = {name: body.removesuffix("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return Prompt(PromptRef(id, version, language, digest), text, sections)
