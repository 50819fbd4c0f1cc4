from __future__ import annotations

import hashlib
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from grading.prompt_files import LANGUAGES, load_prompt
from rollouts.calls.replies import Cause
from rollouts.errors import UsageError
from rollouts.prompt_files import parse_prompt

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "grading" / "prompts").iterdir())
HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.mark.parametrize("name", ["grader", "summarizer"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_prompt_says_what_it_is_and_its_hash_covers_the_file(name: str, language: str) -> None:
    prompt = load_prompt(name, language)
    path = ROOT / "grading" / "prompts" / f"{name}.{language}.txt"
    assert (prompt.ref.id, prompt.ref.language) == (name, language)
    assert prompt.ref.version >= 1
    assert prompt.ref.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert bool(HAN.search(prompt.text)) is (language == "zh")


@pytest.mark.parametrize("name", ["grader", "summarizer"])
def test_both_languages_have_the_same_sections_places_and_causes(name: str) -> None:
    english, chinese = (load_prompt(name, language) for language in LANGUAGES)
    assert list(english.sections) == list(chinese.sections)
    for section in set(english.sections) - {"causes"}:
        places = [sorted(set(re.findall(r"\$\w+", p.sections[section]))) for p in (english, chinese)]
        assert places[0] == places[1], section
    causes = [[line.split(": ")[0] for line in p.sections["causes"].splitlines()] for p in (english, chinese)]
    assert causes[0] == causes[1]
    assert set(causes[0]) <= set(Cause)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_prompts_know_nothing_of_the_game_and_are_shipped(path: Path) -> None:
    text = path.read_text(encoding="utf-8").casefold()
    assert not re.search(r"doom|monster|health|ammo|kill|game|游戏|怪物|射击", text)
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["grading"]
    assert any(fnmatch(f"prompts/{path.name}", pattern) for pattern in shipped)


def test_filling_leaves_dollars_in_the_data_alone() -> None:
    prompt = parse_prompt("id: x\nversion: 2\nlanguage: en\n=== user ===\nSay $what.\n=== none ===\n-\n")
    assert prompt.fill("user", what="$what costs $5") == "Say $what costs $5."
    assert (prompt.ref.version, prompt.sections["none"]) == (2, "-")


def test_another_wording_is_another_hash() -> None:
    text = load_prompt("grader", "en").text
    assert parse_prompt(text + " ").ref.sha256 != load_prompt("grader", "en").ref.sha256


def test_an_unknown_language_names_the_choices() -> None:
    with pytest.raises(UsageError, match=r"language 'fr' is not known, choose one of: en, zh"):
        load_prompt("grader", "fr")
