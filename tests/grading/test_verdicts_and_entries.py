from __future__ import annotations

import json
from typing import Any

import pytest

from grading.replies import read_entries, read_verdict
from rollouts.calls.chat_records import ChatReply
from rollouts.calls.replies import Cause, ReplyRefused

GOOD = {
    "goal_achievement": 0.5,
    "process_quality": 0,
    "user_satisfaction": -0.25,
    "label": "partial",
    "reason": "It kept to the plan.",
}


def verdict_text(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def test_a_good_verdict() -> None:
    verdict = read_verdict(ChatReply(verdict_text(), finish_reason="stop"))
    assert (verdict.goal_achievement, verdict.process_quality, verdict.user_satisfaction) == (0.5, 0.0, -0.25)
    assert (verdict.label, verdict.reason, verdict.flags) == ("partial", "It kept to the plan.", ())


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"goal_achievement": 1.7}, Cause.OUT_OF_RANGE),
        ({"process_quality": 70}, Cause.OUT_OF_RANGE),
        ({"user_satisfaction": -1.0001}, Cause.OUT_OF_RANGE),
        ({"goal_achievement": "-0.3"}, Cause.NOT_A_NUMBER),
        ({"goal_achievement": "high"}, Cause.NOT_A_NUMBER),
        ({"goal_achievement": True}, Cause.NOT_A_NUMBER),
        ({"goal_achievement": None}, Cause.NOT_A_NUMBER),
        ({"goal_achievement": float("nan")}, Cause.NOT_A_NUMBER),
        ({"label": "good"}, Cause.UNKNOWN_LABEL),
        ({"label": "excellent"}, Cause.UNKNOWN_LABEL),
        ({"label": 1}, Cause.UNKNOWN_LABEL),
        ({"reason": ""}, Cause.MISSING_KEY),
    ],
)
def test_a_bad_field_refuses_the_verdict(changes: dict[str, Any], cause: Cause) -> None:
    with pytest.raises(ReplyRefused) as caught:
        read_verdict(ChatReply(verdict_text(**changes)))
    assert caught.value.cause is cause


@pytest.mark.parametrize("key", list(GOOD))
def test_each_key_is_required(key: str) -> None:
    with pytest.raises(ReplyRefused) as caught:
        read_verdict(ChatReply(json.dumps({k: v for k, v in GOOD.items() if k != key})))
    assert caught.value.cause is Cause.MISSING_KEY


def test_an_extra_key_is_dropped_and_a_label_mended_both_flagged() -> None:
    verdict = read_verdict(ChatReply(verdict_text(confidence=0.9, label=" Success\n")))
    assert verdict.label == "success"
    assert verdict.flags == ("label_mended", "extra_key:confidence")


def test_a_reason_may_hold_a_fence_and_the_shape_of_a_verdict() -> None:
    reason = f"The agent wrote ```text x``` and {verdict_text(label='success')}"
    assert read_verdict(ChatReply(verdict_text(reason=reason))).reason == reason


def entry(key: str, **changes: Any) -> dict[str, Any]:
    fields = {"tool_call": "look()", "summary": "found", "tool_call_id": key, "timestamp": "now", "score": 7.5}
    return {**fields, **changes}


def test_entries_are_matched_by_id_whatever_their_order() -> None:
    found = read_entries(ChatReply(json.dumps([entry("b", summary="B"), entry("a", summary="A")])), ["a", "b"])
    assert [found.entries[key].summary for key in "ab"] == ["A", "B"]
    assert found.entries["a"].score == 7.5
    assert (dict(found.refused), found.flags) == ({}, ())


@pytest.mark.parametrize(
    ("objects", "cause"),
    [
        ([entry("b")], Cause.MISSING_ENTRY),
        ([entry("a"), entry("a"), entry("b")], Cause.DOUBLED_ENTRY),
        ([entry("A"), entry("b")], Cause.MISSING_ENTRY),
        ([entry(" a"), entry("b")], Cause.MISSING_ENTRY),
        ([entry("a", score=11), entry("b")], Cause.OUT_OF_RANGE),
        ([entry("a", score=-1), entry("b")], Cause.OUT_OF_RANGE),
        ([entry("a", score="7"), entry("b")], Cause.NOT_A_NUMBER),
        ([entry("a", score=True), entry("b")], Cause.NOT_A_NUMBER),
        ([entry("a", summary=""), entry("b")], Cause.MISSING_KEY),
        ([entry("a", tool_call=None), entry("b")], Cause.MISSING_KEY),
        ([entry("a", timestamp=" "), entry("b")], Cause.MISSING_KEY),
        (["a", entry("b")], Cause.MISSING_ENTRY),
    ],
)
def test_one_bad_object_leaves_the_others_alone(objects: list[Any], cause: Cause) -> None:
    found = read_entries(ChatReply(json.dumps(objects)), ["a", "b"])
    assert list(found.entries) == ["b"]
    assert found.refused["a"].cause is cause


def test_an_invented_id_is_never_guessed_by_position() -> None:
    found = read_entries(ChatReply(json.dumps([entry("x"), entry("b")])), ["a", "b"])
    assert list(found.entries) == ["b"]
    assert found.flags == ("invented_id",)


def test_a_one_key_wrapper_is_taken_off_and_recorded() -> None:
    found = read_entries(ChatReply(json.dumps({"entries": [entry("a")]})), ["a"])
    assert list(found.entries) == ["a"]
    assert found.flags == ("wrapper",)


@pytest.mark.parametrize("value", [entry("a"), {"entries": [], "more": []}, {"entries": {}}, "text", 3])
def test_anything_but_an_array_is_refused(value: Any) -> None:
    with pytest.raises(ReplyRefused) as caught:
        read_entries(ChatReply(json.dumps(value)), ["a"])
    assert caught.value.cause is Cause.NOT_JSON


@pytest.mark.parametrize("start", ["", '{"entries": ', "```json\n", "<think>hm</think>\n"])
def test_a_cut_off_reply_keeps_its_whole_objects(start: str) -> None:
    whole = json.dumps([entry("a", summary="a ] } b"), entry("b"), entry("c")])
    text = start + whole[: whole.index('"c"')]
    found = read_entries(ChatReply(text, finish_reason="length"), ["a", "b", "c"])
    assert list(found.entries) == ["a", "b"]
    assert found.refused["c"].cause is Cause.CUT_OFF
    assert found.cut_off


@pytest.mark.parametrize("text", [None, "", "<think>on and on", "Well"])
def test_a_reply_cut_off_before_its_first_object_is_of_no_use(text: str | None) -> None:
    with pytest.raises(ReplyRefused) as caught:
        read_entries(ChatReply(text, finish_reason="length"), ["a"])
    assert caught.value.cause is Cause.CUT_OFF
