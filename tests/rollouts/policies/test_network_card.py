"""Cards: read strictly, and written so that they can be read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rollouts.errors import UsageError
from rollouts.policies.network_card import NetworkCard, find_card, read_card

OPTIONS = ("attack", "turn left")
CONV = NetworkCard("conv", "frame", OPTIONS, (84, 96), settings={"hidden": 32})
CUT = NetworkCard("conv", "frame", OPTIONS, (20, 80), (80, 120, 0, 320), settings={"grid": [3, 10]})
TOKENS = NetworkCard("tokens", "text", None, buckets=100, length=7)


@pytest.mark.parametrize("card", [CONV, CUT, TOKENS, NetworkCard()])
def test_what_is_written_can_be_read(card: NetworkCard) -> None:
    assert read_card(card.as_json(), "here") == card


def test_an_architecture_says_what_it_observes() -> None:
    assert read_card('{"architecture": "tokens"}', "here").observes == "text"
    assert read_card('{"architecture": "conv"}', "here").observes == "frame"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "here is no JSON"),
        ("[]", "here must be a JSON object, not list"),
        ('{"option": []}', 'here: key "option" is unknown (did you mean "options"?)'),
        ('{"architecture": "os:system"}', 'here: architecture "os:system" is unknown: choose from conv, tokens'),
        ('{"observes": "sound"}', 'here: observes "sound" is unknown: choose from frame, text'),
        ('{"architecture": "conv", "observes": "text"}', 'architecture "conv" observes "frame", not "text"'),
        ('{"options": "attack"}', 'here: options is "attack": must be a list of action names'),
        ('{"options": ["a", "a"]}', "must be without repetition"),
        ('{"frame_size": [84]}', "here: frame_size is [84]: must be [height, width] in pixels"),
        ('{"frame_size": [84, 0]}', "must be [height, width]"),
        ('{"crop": [80, 120]}', "here: crop is [80, 120]: must be [top, bottom, left, right] in pixels"),
        ('{"crop": [-1, 120, 0, 320]}', "must be [top, bottom, left, right] in pixels"),
        ('{"crop": [120, 120, 0, 320]}', "with top above bottom and left before right"),
        ('{"buckets": 1}', "here: buckets is 1: must be a whole number from 2"),
        ('{"length": true}', "here: length is true: must be a whole number from 1"),
        ('{"settings": 3}', "here: settings is 3: must be a JSON object"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        read_card(text, "here")


def test_metadata_wins_over_the_file_beside(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(TOKENS.as_json())
    checkpoint = tmp_path / "w.safetensors"
    assert find_card(checkpoint, {}, "p") == TOKENS
    assert find_card(checkpoint, {"doom_rollouts": CONV.as_json()}, "p") == CONV
    assert find_card(tmp_path / "other.safetensors", {"format": "pt"}, "p") is None


def test_errors_name_the_card(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(json.dumps({"length": 0}))
    with pytest.raises(UsageError, match=re.escape("policy 'torch:w': the card \"w.json\": length is 0")):
        find_card(tmp_path / "w.safetensors", {}, "torch:w")
