"""The words that a chat model is told, and that they are there wherever the package is installed."""

from __future__ import annotations

import hashlib
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from rollouts.policies.chat_prompt import chat_prompt, system_text, turn_text
from rollouts.policies.model_settings import ANSWERS, OBSERVES, ModelSettings, Observe
from rollouts.policies.reply_rules import Wanted
from rollouts.records import Snapshot
from rollouts.scenarios.registry import SCENARIOS

ROOT = Path(__file__).parents[3]
FILE = ROOT / "rollouts" / "policies" / "prompts" / "chat.en.txt"
SEEN = Snapshot(0, health=80, ammo=12, kills=3)


def test_the_hash_covers_the_file_and_the_file_is_packaged() -> None:
    assert chat_prompt().ref.sha256 == hashlib.sha256(FILE.read_bytes()).hexdigest()
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["rollouts"]
    assert any(fnmatch(str(FILE.relative_to(ROOT / "rollouts")), pattern) for pattern in packaged)


@pytest.mark.parametrize("observe", OBSERVES)
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("instructions", ["Cost: $5 & $name.", None])
def test_no_place_stays_empty_and_instructions_stay_as_they_are(
    observe: Observe, answer: Wanted, instructions: str | None
) -> None:
    text = system_text(ModelSettings(observe=observe, answer=answer), instructions)
    assert (instructions or "Nobody has explained this game") in text
    assert set(re.findall(r"\$\w+", text)) <= {"$5", "$name"}
    assert ("picture" in text) is (observe != "text")
    assert ("letter" in text) is (answer == "letters")


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda s: s.name)
def test_every_option_is_listed_once(scenario) -> None:  # type: ignore[no-untyped-def]
    for answer in ANSWERS:
        text = turn_text(ModelSettings(answer=answer), SEEN, "The state.", scenario.options)
        listed = text.split("Options:\n")[1].split("\n\n")[0].splitlines()
        assert [line.split(" ", 1)[1] for line in listed] == list(scenario.options)


def test_a_status_has_what_the_scenario_has_and_nothing_else() -> None:
    seen = ModelSettings(observe="frame")
    assert turn_text(seen, Snapshot(0, health=80), "x", ("a",)).startswith("Health is 80.\n\nOptions:")
    assert turn_text(seen, Snapshot(0), "x", ("a",)).startswith("There is no status to report.\n\nOptions:")
