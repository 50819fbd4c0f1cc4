"""Prompts: text files, one for each task and language, with an id, a version and a hash.

A file starts with `id:`, `version:` and `language:` lines; sections follow, each under `=== name ===`. `$word` is a
place to fill. The hash covers the whole file, so that any change of wording shows in every record made with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

_SECTION = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PromptRef:
    """What a record keeps of its prompt: id, version, language and the SHA-256 (hex) of the file's text."""

    id: str
    version: int
    language: str
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
        lines = dict(line.split(": ", 1) for line in self.sections["causes"].splitlines() if line)
        return lines.get(code, code)


@cache
def read_prompt(package: str, name: str, language: str) -> Prompt:
    """`prompts/<name>.<language>.txt` of an installed package."""
    text = files(package).joinpath("prompts", f"{name}.{language}.txt").read_text(encoding="utf-8")
    return parse_prompt(text)


def parse_prompt(text: str) -> Prompt:
    """A prompt file's text taken apart."""
    head, *parts = _SECTION.split(text)
    facts = dict(line.split(": ", 1) for line in head.splitlines())
    digest = hashlib.sha256(text.encode()).hexdigest()
    sections = {name: body.removesuffix("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return Prompt(PromptRef(facts["id"], int(facts["version"]), facts["language"], digest), text, sections)
