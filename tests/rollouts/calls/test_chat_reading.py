"""Replies as endpoints really send them."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.calls.call_failures import Failure
from rollouts.calls.chat_reading import read_completion
from rollouts.calls.chat_records import ChatReply, TokenLogprob


def read(data: object, **headers: str) -> ChatReply:
    reply = read_completion(data, {name.replace("_", "-"): value for name, value in headers.items()})
    assert isinstance(reply, ChatReply)
    return reply


def said(**message: Any) -> dict[str, Any]:
    return {"choices": [{"finish_reason": "stop", "message": message}]}


def test_a_whole_reply() -> None:
    data = said(content="向左", refusal=None, reasoning_content="hm") | {
        "id": "c-1",
        "model": "m-2026",
        "system_fingerprint": "fp",
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
    }
    assert read(data, x_request_id="r-1") == ChatReply(
        content="向左",
        finish_reason="stop",
        reasoning="hm",
        model="m-2026",
        system_fingerprint="fp",
        request_id="r-1",
        tokens_in=9,
        tokens_out=2,
        tokens_cached=4,
    )
    assert read(data).request_id == "c-1"


@pytest.mark.parametrize(
    "data",
    [
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        said(content=None),
        said(content=7),
        said(content=[]),
    ],
)
def test_no_text_is_none_and_no_error(data: object) -> None:
    assert read(data).content is None


def test_refusal_filter_and_blank_text_are_told_apart() -> None:
    assert read(said(content=None, refusal="I can't")).refusal == "I can't"
    assert read({"choices": [{"finish_reason": "content_filter", "message": {"content": ""}}]}) == ChatReply(
        content="", finish_reason="content_filter"
    )
    assert read(said(content=" \n")).content == " \n"


def test_text_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "turn "}, {"type": "text", "text": "left"}]
    assert read(said(content=parts)).content == "turn left"


def test_logprobs_keep_their_alternatives() -> None:
    data = said(content="A")
    top = [{"token": "A", "logprob": -0.5}, {"token": " A", "logprob": -2.0}, {"token": "B", "logprob": None}]
    data["choices"][0]["logprobs"] = {"content": [{"token": "A", "logprob": -0.5, "top_logprobs": top}]}
    assert read(data).logprobs == (TokenLogprob("A", -0.5, (("A", -0.5), (" A", -2.0))),)


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "9"}, {"prompt_tokens": True}, {}])
def test_odd_usage_is_unknown(usage: object) -> None:
    reply = read(said(content="x") | {"usage": usage})
    assert (reply.tokens_in, reply.tokens_out, reply.tokens_cached) == (None, None, None)


@pytest.mark.parametrize("data", [None, [], "text", 3, {}, {"object": "list"}])
def test_what_is_no_completion_is_a_bad_reply(data: object) -> None:
    was = read_completion(data, {})
    assert isinstance(was, Failure)
    assert (was.kind, was.retry) == ("bad_reply", True)


def test_an_error_under_status_200_is_the_error_that_it_names() -> None:
    limited = read_completion({"error": {"code": 429, "message": "slow down"}}, {"retry-after": "2"})
    assert isinstance(limited, Failure)
    assert (limited.kind, limited.retry_after_s) == ("rate_limited", 2.0)
    unknown = read_completion({"error": {"message": "broke"}}, {})
    assert isinstance(unknown, Failure)
    assert unknown.kind == "http_500"
