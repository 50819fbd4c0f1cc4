"""What is sent to endpoints that refuse things, and which of their errors teach something (as seen in the wild)."""

from __future__ import annotations

import json

import pytest

from rollouts.calls.chat_records import ChatMessage, ChatRequest, ReplySchema
from rollouts.calls.dialect import LESSONS, build_body, learn

SCHEMA = ReplySchema("grade", {"type": "object"})
FULL = ChatRequest(
    "m",
    (ChatMessage("system", "be brief"), ChatMessage("user", "look", images=("data:image/png;base64,AA",))),
    max_tokens=100,
    temperature=0.0,
    seed=7,
    schema=SCHEMA,
    top_logprobs=5,
)


def test_everything_that_was_asked_for_is_sent() -> None:
    body = build_body(FULL, ())
    assert body.fields == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                ],
            },
        ],
        "max_tokens": 100,
        "temperature": 0.0,
        "seed": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "grade", "schema": {"type": "object"}, "strict": True},
        },
        "logprobs": True,
        "top_logprobs": 5,
    }
    assert body.adjustments == ()


def test_nothing_that_was_not_asked_for_is_sent() -> None:
    body = build_body(ChatRequest("m", (ChatMessage("user", "hi"),)), LESSONS)
    assert body.fields == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert body.adjustments == ()
    assert body.sent == frozenset()


@pytest.mark.parametrize(
    ("lessons", "adjustment"),
    [
        (["max_tokens"], "max_tokens->max_completion_tokens"),
        (["max_tokens", "max_completion_tokens"], "-max_tokens"),
        (["temperature"], "-temperature"),
        (["seed"], "-seed"),
        (["json_schema"], "json_schema->json_object"),
        (["json_schema", "json_object"], "-json_schema"),
        (["logprobs"], "-logprobs"),
        (["images"], "-images"),
    ],
)
def test_each_lesson_drops_or_swaps_one_thing(lessons: list[str], adjustment: str) -> None:
    body = build_body(FULL, lessons)
    assert body.adjustments == (adjustment,)
    assert not set(lessons) & body.sent
    sent = json.dumps(body.fields)
    assert ('"max_tokens"' in sent) == ("max_tokens" not in lessons)
    assert ('"image_url"' in sent) == ("images" not in lessons)
    assert ("logprobs" in sent) == ("logprobs" not in lessons)


def test_half_a_surrogate_pair_can_be_sent() -> None:
    body = build_body(ChatRequest("m", (ChatMessage("user", "a\ud800b 好"),)), ())
    assert body.fields["messages"][0]["content"] == "a?b 好"


REFUSALS = [
    (
        400,
        "max_tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "max_tokens",
    ),
    (
        400,
        "temperature",
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
        "temperature",
    ),
    (
        400,
        "response_format",
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "json_schema",
    ),
    (400, None, "This response_format type is unavailable now", "json_schema"),
    (403, None, "You are not allowed to request logprobs from this model", "logprobs"),
    (422, "seed", "seed: Extra inputs are not permitted", "seed"),
    (400, None, "Unrecognized request argument supplied: seed", "seed"),
    (
        400,
        "messages.[1].content.[1].type",
        "Invalid content type. image_url is only supported by certain models.",
        "images",
    ),
    (500, None, "image input is not supported - hint: you may need to provide the mmproj", "images"),
    (400, None, "unknown variant `image_url`, expected `text`", "images"),
]


@pytest.mark.parametrize(("status", "param", "message", "lesson"), REFUSALS)
def test_refusals_teach(status: int, param: str | None, message: str, lesson: str) -> None:
    assert learn(status, param, message, build_body(FULL, ())) == lesson


@pytest.mark.parametrize(
    ("status", "param", "message"),
    [
        (400, None, "This model's maximum context length is 8192 tokens. Please reduce max_tokens or the messages."),
        (400, "max_tokens", "max_tokens is too large: 100000. This model supports at most 4096 completion tokens."),
        (400, "model", "The model `m` does not support chat"),
        (401, None, "temperature is not supported"),
        (429, None, "seed not allowed"),
        (503, None, "image service unavailable"),
        (400, None, "something else is not supported"),
        (400, None, "You uploaded an unsupported image. Use one of the following formats: png, jpeg."),
        (400, None, "cannot decode the image"),
        (None, None, "no answer within 20 s"),
    ],
)
def test_other_errors_teach_nothing(status: int | None, param: str | None, message: str) -> None:
    assert learn(status, param, message, build_body(FULL, ())) is None


def test_what_was_not_sent_cannot_be_refused() -> None:
    plain = build_body(ChatRequest("m", (ChatMessage("user", "hi"),)), ())
    assert all(learn(status, param, message, plain) is None for status, param, message, _ in REFUSALS)


def test_json_object_that_wants_the_word_json_is_given_up() -> None:
    body = build_body(FULL, ["json_schema"])
    message = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
    assert learn(400, "messages", message, body) == "json_object"
