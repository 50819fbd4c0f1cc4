from __future__ import annotations

import pytest

from rollouts.calls.chat_records import CallError, ChatReply
from rollouts.calls.replies import (
    Cause,
    ReplyRefused,
    json_answer,
    json_object,
    need_number,
    need_text,
    read_json,
    shown,
)


def cause_of(reply: ChatReply | str) -> Cause:
    given = ChatReply(reply, finish_reason="stop") if isinstance(reply, str) else reply
    with pytest.raises(ReplyRefused) as caught:
        json_object(given)
    return caught.value.cause


def test_a_plain_object_is_read_without_flags() -> None:
    assert json_object(ChatReply('  {"a": 1}\n')) == ({"a": 1}, ())


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ('```json\n{"a": 1}\n```', ("fence",)),
        ('```\n{"a": 1}\n```\n', ("fence",)),
        ('~~~json\n{"a": 1}\n~~~', ("fence",)),
        ('```json {"a": 1} ```', ("fence",)),
        ('\ufeff{"a": 1}', ("bom",)),
        ('<think>{"a": 2}, no: 1</think>{"a": 1}', ("thinking",)),
        ('<THINKING>\nhm\n</THINKING>\n\n```json\n{"a": 1}\n```', ("thinking", "fence")),
        ('the template opened it\n</think>\n{"a": 1}', ("thinking",)),
        ('[THINK]hm[/THINK]{"a": 1}', ("thinking",)),
        ('<think>one</think><think>two</think>{"a": 1}', ("thinking",)),
    ],
)
def test_what_surrounds_the_whole_answer_is_taken_off_and_flagged(text: str, flags: tuple[str, ...]) -> None:
    assert json_object(ChatReply(text)) == ({"a": 1}, flags)


def test_fences_and_tags_inside_a_value_are_untouched() -> None:
    text = '{"reason": "it wrote ```json\\n{}\\n``` and </think> and <think>"}'
    assert json_object(ChatReply(text)) == ({"reason": "it wrote ```json\n{}\n``` and </think> and <think>"}, ())


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('Sure, here you go:\n```json\n{"a": 1}\n```', Cause.NOT_JSON),
        ('{"a": 1} I hope this helps', Cause.NOT_JSON),
        ('{"a": 1,}', Cause.NOT_JSON),
        ("{'a': 1}", Cause.NOT_JSON),
        ("[1]", Cause.NOT_JSON),
        ("7", Cause.NOT_JSON),
        ("{" * 5000, Cause.NOT_JSON),
        ("[" * 100_000, Cause.NOT_JSON),
        ('{"a": "\\ud800"}', Cause.NOT_JSON),
        ('{"a": 1}{"a": 2}', Cause.AMBIGUOUS),
        ('{"a": 1}\n{"a": 1}', Cause.AMBIGUOUS),
        ('Either {"a": 1} or {"a": 2}', Cause.AMBIGUOUS),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', Cause.AMBIGUOUS),
        ('{"a": 1, "a": 2}', Cause.AMBIGUOUS),
        ('{"b": {"a": 1, "a": 1}}', Cause.AMBIGUOUS),
        ('{"a": NaN}', Cause.NOT_A_NUMBER),
        ('{"a": -Infinity}', Cause.NOT_A_NUMBER),
        ("", Cause.EMPTY),
        (" \n\t\u3000", Cause.EMPTY),
        ("<think>and so on", Cause.EMPTY),
        ("<think>done</think>  ", Cause.EMPTY),
        ("I can't help with that", Cause.REFUSED),
        ("I’m sorry, but no.", Cause.REFUSED),
        ("抱歉,我无法评价。", Cause.REFUSED),
    ],
)
def test_unusable_text_is_refused_by_cause(text: str, cause: Cause) -> None:
    assert cause_of(text) is cause


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (ChatReply(None), Cause.EMPTY),
        (ChatReply("", finish_reason="content_filter"), Cause.FILTERED),
        (ChatReply('{"a": 1}', finish_reason="content_filter"), Cause.FILTERED),
        (ChatReply(None, refusal="No."), Cause.REFUSED),
        (ChatReply('{"a": 1}', finish_reason="length"), Cause.CUT_OFF),
        (ChatReply(None, finish_reason="length"), Cause.CUT_OFF),
        (ChatReply(None, error=CallError("timeout", "20 s")), Cause.ENDPOINT_ERROR),
    ],
)
def test_the_finish_reason_comes_before_the_content(reply: ChatReply, cause: Cause) -> None:
    assert cause_of(reply) is cause


def test_any_json_value_can_be_read() -> None:
    assert json_answer(ChatReply("[1, 2]")).value == [1, 2]


def test_huge_whole_numbers_are_out_of_range_and_no_crash() -> None:
    fields = read_json('{"a": ' + "9" * 5000 + ', "b": 1e999}').value
    for key in ("a", "b"):
        with pytest.raises(ReplyRefused) as caught:
            need_number(fields, key, -1, 1)
        assert caught.value.cause is Cause.OUT_OF_RANGE


@pytest.mark.parametrize("value", [True, False, "0.3", None, [1], float("nan")])
def test_only_numbers_are_numbers(value: object) -> None:
    with pytest.raises(ReplyRefused) as caught:
        need_number({"a": value}, "a", -1, 1)
    assert caught.value.cause is Cause.NOT_A_NUMBER


def test_bounds_belong_to_the_range() -> None:
    assert [need_number({"a": v}, "a", -1, 1) for v in (-1, 1, 0.5)] == [-1.0, 1.0, 0.5]


@pytest.mark.parametrize("fields", [{}, {"a": ""}, {"a": "  "}, {"a": None}, {"a": 3}])
def test_a_required_text_is_there_and_not_blank(fields: dict[str, object]) -> None:
    with pytest.raises(ReplyRefused) as caught:
        need_text(fields, "a")
    assert caught.value.cause is Cause.MISSING_KEY


def test_details_are_one_short_line() -> None:
    assert shown("a\nb" + "c" * 100) == "a b" + "c" * 77 + "..."
    assert shown({"分": 1}) == '{"分": 1}'
