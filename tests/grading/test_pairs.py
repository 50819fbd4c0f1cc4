from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from grading.pairs import ToolPair, episode_context, episode_pairs
from grading.transcript import EpisodeFacts, TranscriptStep
from rollouts.errors import UsageError

FACTS = EpisodeFacts("s.rule.oracle.7.0", "kills", 1.0, "timeout", "Stay alive.", "final state")
WHEN = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)


def steps() -> list[TranscriptStep]:
    def step(tick: int, action: str, **more: Any) -> TranscriptStep:
        return TranscriptStep(tick, f"state {tick}", action, decided_at=WHEN, **more)

    return [
        step(0, "turn left", before={"health": 100, "kills": 0}, after={"health": 100, "kills": 0}),
        step(
            1, "turn left", before={"health": 100, "kills": 0}, after={"health": 90, "kills": 1}, events=("kill", "hit")
        ),
        step(2, "attack", answer="fire", schema_error="not_an_option"),
        step(3, "attack"),
    ]


def test_a_span_is_a_pair() -> None:
    pairs = episode_pairs(FACTS, steps())
    assert pairs[0] == ToolPair(
        id="s.rule.oracle.7.0:0",
        timestamp="2026-01-02T03:04:05.000600+00:00",
        tool="act",
        params={"action": "turn left", "repeat": 2, "tics": 4},
        result={
            "changed": {"health": "100 -> 90", "kills": "0 -> 1"},
            "events": ["kill", "hit"],
            "state_after": "state 2",
        },
    )
    assert [pair.id.rpartition(":")[2] for pair in pairs] == ["0", "2", "3"]
    assert pairs[1].params == {"action": "fire", "repeat": 1, "tics": 4}
    assert pairs[1].result == {
        "changed": {}, "events": [], "state_after": "state 3", "error": "not_an_option; sent instead: attack",
    }  # fmt: skip
    assert pairs[2].result == {"changed": {}, "events": [], "state_after": "final state"}


def test_an_episode_without_a_state_at_the_end_has_none_in_its_last_pair() -> None:
    last = episode_pairs(replace(FACTS, final_state=None), steps())[-1]
    assert last.result == {"changed": {}, "events": [], "state_after": None}


def test_no_decisions_no_pairs() -> None:
    assert episode_pairs(FACTS, []) == ()


def test_the_context_of_a_batch_holds_the_goal_and_the_last_exchanges_before_it() -> None:
    assert episode_context(FACTS, steps(), "s.rule.oracle.7.0:0") == 'INSTRUCTIONS: "Stay alive."'
    assert episode_context(FACTS, steps(), "s.rule.oracle.7.0:3", exchanges=1).split("\n") == [
        'INSTRUCTIONS: "Stay alive."',
        'USER: "state 2"',
        'AGENT: "fire"',
    ]
    everything = episode_context(FACTS, steps(), "s.rule.oracle.7.0:3").split("\n")
    assert everything[1:3] == ['USER: "state 0"', 'AGENT: "turn left ×2"']
    assert episode_context(FACTS, steps(), "s.rule.oracle.7.0:3", exchanges=0) == 'INSTRUCTIONS: "Stay alive."'
    assert episode_context(replace(FACTS, instructions=None), steps(), "s.rule.oracle.7.0:0") == ""


def test_a_pair_names_its_call() -> None:
    assert ToolPair("a", "t", "read", {"路径": "甲"}).call == 'read({"路径":"甲"})'
    assert ToolPair("a", "t", "look").call == "look()"


@pytest.mark.parametrize("fields", [("", "t", "x"), ("a", " ", "x"), ("a", "t", "")])
def test_a_pair_without_id_time_or_tool_is_refused(fields: tuple[str, str, str]) -> None:
    with pytest.raises(UsageError, match="needs a"):
        ToolPair(*fields)
