from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from grading.transcript import (
    NOT_ASKED,
    STEP_COLUMNS,
    TOO_LATE,
    EpisodeFacts,
    Exchange,
    HostAgent,
    TranscriptStep,
    conversation,
    episode_transcript,
    spans,
    step_from_row,
)

HOST = HostAgent("oracle", "rule")
FACTS = EpisodeFacts("e", "kills", 2.0, "death", "Kill what you see.")


def steps(*actions: str) -> list[TranscriptStep]:
    return [TranscriptStep(n, f"state {n}", action) for n, action in enumerate(actions)]


def lengths(given: list[TranscriptStep]) -> list[int]:
    return [len(span.steps) for span in spans(given)]


def test_equal_decisions_in_a_row_are_one_span() -> None:
    assert lengths(steps("left", "left", "right", "left")) == [2, 1, 1]
    assert lengths([]) == []


def test_an_event_ends_its_span() -> None:
    given = steps("attack", "attack", "attack", "attack")
    given[1] = replace(given[1], events=("kill",))
    assert lengths(given) == [2, 2]
    assert [span.events for span in spans(given)] == [("kill",), ()]


def test_a_decision_out_of_schema_stands_alone() -> None:
    given = steps("attack", "attack", "attack", "attack")
    given[1] = replace(given[1], schema_error="not_an_option", answer="fire")
    given[2] = replace(given[2], schema_error="not_an_option", answer="fire")
    assert lengths(given) == [1, 1, 1, 1]


def test_a_turn_that_was_played_for_the_agent_shows_no_action() -> None:
    given = [replace(step, asked=False) for step in steps("attack", "left")]
    (exchange,) = episode_transcript(FACTS, HOST, given).exchanges
    assert (exchange.reply, exchange.count) == (NOT_ASKED, 2)


def test_an_answer_that_came_too_late_is_told_with_that_and_stands_alone() -> None:
    given = [*steps("left", "left"), TranscriptStep(2, "state 2", None, answer="left")]
    assert lengths(given) == [2, 1]
    last = episode_transcript(FACTS, HOST, given).exchanges[-1]
    assert (last.reply, last.error) == ("left", TOO_LATE)
    wrong = [replace(given[2], answer="fire!", schema_error="not_an_option")]
    assert episode_transcript(FACTS, HOST, wrong).exchanges[0].error == f"not_an_option; {TOO_LATE}"
    unasked = [replace(given[2], asked=False, answer=None)]
    (exchange,) = episode_transcript(FACTS, HOST, unasked).exchanges
    assert (exchange.reply, exchange.error) == (NOT_ASKED, None)


def test_an_episode_as_a_conversation() -> None:
    given = [*steps("left", "left"), TranscriptStep(2, "state 2", "attack", answer="fire!", schema_error="no_option")]
    transcript = episode_transcript(FACTS, HOST, given)
    assert transcript.standing_ask == "Kill what you see."
    assert [(e.ask, e.reply, e.count, e.key) for e in transcript.exchanges] == [
        ("state 0", "left", 2, "e:0"),
        ("state 2", "fire!", 1, "e:2"),
    ]
    assert transcript.exchanges[1].error == "no_option; sent instead: attack"
    assert transcript.outcome == (("kills", 2.0), ("decisions", 3), ("end reason", "death"), ("out of schema", 1))
    assert (transcript.last_ask, transcript.last_reply) == ("state 2", "fire!")


def test_the_last_exchange_is_the_last_decision_not_the_first_of_its_span() -> None:
    assert episode_transcript(FACTS, HOST, steps("left", "left", "left")).last_ask == "state 2"


def test_an_episode_without_decisions_has_its_standing_ask_only() -> None:
    transcript = episode_transcript(FACTS, HOST, [])
    assert (transcript.exchanges, transcript.last_ask, transcript.last_reply) == ((), "Kill what you see.", None)


def test_a_conversation_with_a_pivot_ends_with_the_new_ask() -> None:
    transcript = conversation(HOST, [Exchange("ask A", "did A"), Exchange("no, ask B", "did B")])
    assert (transcript.standing_ask, transcript.last_ask, transcript.last_reply) == (None, "no, ask B", "did B")


def test_a_row_of_the_steps_table_becomes_a_step_without_the_teacher() -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    row = dict.fromkeys(STEP_COLUMNS) | {
        "episode_id": "e", "tick": 3, "tics": 4, "state": "生命 90", "model_action": "fire",
        "effective_action": "attack", "asked": True, "schema_error": "not_an_option", "events": ["hit"],
        "health": 90, "health_after": 80,
        "n_visible": 1, "decided_at": when,
    }  # fmt: skip
    assert step_from_row(row) == TranscriptStep(
        3, "生命 90", "attack", "fire", True, "not_an_option", None, ("hit",), 4, 1, 0.0, {"health": 90},
        {"health": 80}, when,
    )  # fmt: skip
    assert not any("teacher" in column for column in STEP_COLUMNS)
