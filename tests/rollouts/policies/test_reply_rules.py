"""What becomes of replies as models really give them: one rule or one cause each."""

from __future__ import annotations

import pytest

from rollouts.calls.chat_records import ChatReply
from rollouts.policies.reply_rules import SchemaError, Wanted, read_choice

UPPER = ("MOVE_LEFT", "MOVE_RIGHT", "ATTACK")
OURS = ("attack", "turn left", "turn right")


def read(text: str | None, wanted: Wanted = "plain", options: tuple[str, ...] = UPPER) -> tuple[str | None, str | None]:
    """The option and the rule, or None and the cause."""
    found = read_choice(ChatReply(text, finish_reason="stop"), options, wanted)
    return (found.choice, found.rule) if found.cause is None else (None, found.cause.value)


NOT_AN_OPTION, SEVERAL, THINKING = SchemaError.NOT_AN_OPTION, SchemaError.SEVERAL, SchemaError.THINKING


@pytest.mark.parametrize(
    ("text", "choice", "rule_or_cause"),
    [
        ("The enemy attacked from the right. Action: MOVE_LEFT", "MOVE_LEFT", "labelled"),
        ("Action 1: ATTACK", "ATTACK", "labelled"),
        ("**action** : `move_left`.", "MOVE_LEFT", "labelled"),
        ("TURN LEFT", None, NOT_AN_OPTION),
        ("I would not ATTACK", None, NOT_AN_OPTION),
        ("Action: None", None, NOT_AN_OPTION),
        ("attack!!!", "ATTACK", "bare"),
        ("\u0410TTACK", None, NOT_AN_OPTION),
    ],
)
def test_h1_actions_inside_other_words(text: str, choice: str | None, rule_or_cause: str) -> None:
    assert read(text) == (choice, rule_or_cause)


@pytest.mark.parametrize(
    ("text", "choice", "rule_or_cause"),
    [
        ("1. MOVE_LEFT 2. MOVE_LEFT 3. ATTACK", None, SEVERAL),
        ("ATTACK and MOVE_LEFT", None, SEVERAL),
        ('["MOVE_LEFT", "MOVE_LEFT", "ATTACK"]', None, SEVERAL),
        ('{"action": ["MOVE_LEFT", "ATTACK"]}', None, SEVERAL),
        ('{"action": "ATTACK"} {"action": "MOVE_LEFT"}', None, SEVERAL),
        ('{"action": "ATTACK", "action": "MOVE_LEFT"}', None, SEVERAL),
        ("ATTACK " * 5, None, SEVERAL),
        ("Action 1: ATTACK\nAction 2: ATTACK", None, SEVERAL),
        ("Action: ATTACK\nObservation: enemy dead\nAction: MOVE_LEFT", None, SEVERAL),
        ("word " * 4_000 + "ATTACK", None, NOT_AN_OPTION),
        ("word " * 4_000 + "Action: ATTACK", "ATTACK", "labelled"),
        ("ATTACK\nObservation: enemy dead", None, NOT_AN_OPTION),
        ("Action: ATTACK\nObservation: enemy dead", "ATTACK", "labelled"),
    ],
)
def test_h4_one_decision_is_one_action(text: str, choice: str | None, rule_or_cause: str) -> None:
    assert read(text) == (choice, rule_or_cause)


@pytest.mark.parametrize(
    ("text", "wanted", "choice", "rule_or_cause"),
    [
        ("turn left", "plain", "turn left", "exact"),
        ('{"action": "turn left"}', "json", "turn left", "exact"),
        ('{"action":"turn left"}', "json", "turn left", "exact"),
        ('{"action": "Turn Left"}', "json", "turn left", "json"),
        ('{"action": "turn left", "why": "a monster"}', "json", "turn left", "json"),
        ('```json\n{"action": "attack"}\n```', "json", "attack", "json+fence"),
        ("turn left", "json", "turn left", "bare"),
        ('{"action": "turn left"}', "plain", "turn left", "json"),
        ('"turn left"', "plain", "turn left", "bare"),
        ("TURN_LEFT", "plain", "turn left", "bare"),
        ("turn-left.", "plain", "turn left", "bare"),
        ("Turn  left", "plain", "turn left", "bare"),
        ("<think>a monster, so</think>attack", "plain", "attack", "bare+thinking"),
        ("\ufeffattack", "plain", "attack", "bare+bom"),
        ("Answer:\nattack", "plain", "attack", "labelled"),
        ("My reaction: attack", "plain", None, NOT_AN_OPTION),
        ('{"action": "jump"}', "json", None, NOT_AN_OPTION),
        ('{"move": "attack"}', "json", None, NOT_AN_OPTION),
        ('{"action": 1}', "json", None, NOT_AN_OPTION),
        ('{"action": ["attack"]}', "json", None, NOT_AN_OPTION),
        ('{"action": "attack"} and so on', "json", None, NOT_AN_OPTION),
        ('{"action": "att', "json", None, NOT_AN_OPTION),
        ("attack or turn left?", "plain", None, SEVERAL),
        ("<think>attack", "plain", None, THINKING),
        ("<think>now</think>", "plain", None, THINKING),
        ("attack <think>or not</think>", "plain", None, THINKING),
        ("<think>a</think><think>b</think>attack</think>", "plain", None, THINKING),
        ("I'm sorry, I can't help with that.", "plain", None, SchemaError.REFUSED),
        ("   \n", "plain", None, SchemaError.EMPTY),
        (None, "plain", None, SchemaError.EMPTY),
    ],
)
def test_the_written_rules(text: str | None, wanted: Wanted, choice: str | None, rule_or_cause: str) -> None:
    assert read(text, wanted, OURS) == (choice, rule_or_cause)


def test_fullwidth_letters_are_letters() -> None:
    fullwidth = "".join(chr(ord(letter) + 0xFEE0) for letter in "ATTACK")
    assert read(fullwidth) == ("ATTACK", "bare")


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (ChatReply("attack", finish_reason="length"), SchemaError.CUT_OFF),
        (ChatReply(None, finish_reason="length", reasoning="a monster"), SchemaError.CUT_OFF),
        (ChatReply("", finish_reason="content_filter"), SchemaError.REFUSED),
        (ChatReply(None, refusal="No violence."), SchemaError.REFUSED),
        (ChatReply(None), SchemaError.EMPTY),
    ],
)
def test_the_finish_counts_before_the_text(reply: ChatReply, cause: SchemaError) -> None:
    found = read_choice(reply, OURS, "plain")
    assert (found.choice, found.cause) == (None, cause)


def test_options_that_only_differ_in_case_are_told_apart_by_exact_replies_alone() -> None:
    options = ("fire", "Fire")
    assert read("Fire", options=options) == ("Fire", "exact")
    assert read("FIRE", options=options) == (None, NOT_AN_OPTION)
