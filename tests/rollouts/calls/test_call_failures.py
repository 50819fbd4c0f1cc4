"""What error replies mean, and what of them may be shown."""

from __future__ import annotations

import pytest

from rollouts.calls.call_failures import Failure, read_retry_after, scrub, status_failure

JULY = "Wed, 01 Jul 2026 12:00:00 GMT"
JULY_3S = "Wed, 01 Jul 2026 12:00:03 GMT"


def failure(status: int, message: str = "no", code: str | None = None, **headers: str) -> Failure:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status_failure(status, named, {"error": {"message": message, "code": code, "param": None}})


@pytest.mark.parametrize(
    ("status", "code", "kind", "traits"),
    [
        (429, "rate_limit_exceeded", "rate_limited", {"retry", "overloaded"}),
        (429, "insufficient_quota", "quota", {"fatal"}),
        (402, None, "quota", {"fatal"}),
        (401, "invalid_api_key", "unauthorized", {"fatal"}),
        (403, None, "forbidden", {"fatal"}),
        (404, "model_not_found", "not_found", {"fatal"}),
        (400, None, "bad_request", {"fatal"}),
        (400, "context_length_exceeded", "context_length", {"fatal"}),
        (400, "content_filter", "content_filter", set()),
        (408, None, "http_408", {"retry"}),
        (500, None, "http_500", {"retry"}),
        (503, None, "http_503", {"retry", "overloaded"}),
        (529, None, "http_529", {"retry", "overloaded"}),
    ],
)
def test_each_status_has_its_meaning(status: int, code: str | None, kind: str, traits: set[str]) -> None:
    was = failure(status, code=code)
    assert was.kind == kind
    assert {name for name in ("retry", "overloaded", "fatal") if getattr(was, name)} == traits
    assert not was.may_have_cost


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (413, "Payload too large", "context_length"),
        (400, "At most 4 image(s) may be provided in one request.", "picture_limit"),
        (413, "Too many images", "picture_limit"),
        (
            400,
            "Longer than the maximum context; tokens depend on the number of images",
            "context_length",
        ),
        (400, "This model does not support image input", "bad_request"),
    ],
)
def test_too_much_is_told_apart(status: int, message: str, kind: str) -> None:
    assert failure(status, message).kind == kind


def test_a_minute_limit_in_the_words_of_an_empty_account_says_when_to_come_back() -> None:
    words = "You exceeded your current quota, please check your plan and billing details."
    assert failure(429, words).kind == "quota"
    assert failure(429, words, retry_after="7").kind == "rate_limited"
    assert failure(429, words, code="insufficient_quota", retry_after="7").kind == "quota"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": JULY_3S, "date": JULY}, 3.0),
        ({"retry-after": JULY, "date": JULY_3S}, 0.0),
        ({"retry-after": JULY_3S}, 3.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    noon = 1782907200.0  # 2026-07-01 12:00:00 UTC
    assert read_retry_after(headers, now=noon) == seconds


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        ({"error": {"message": "bad", "param": "seed"}}, "HTTP 422: bad", "seed"),
        ({"message": "bad", "param": "seed"}, "HTTP 422: bad", "seed"),
        ({"error": "bad"}, "HTTP 422: bad", None),
        ({"detail": [{"loc": ["body", "seed"], "msg": "extra"}]}, "HTTP 422: seed: extra", "seed"),
        ({"detail": "bad"}, "HTTP 422: bad", None),
        ("<html>\n bad </html>", "HTTP 422: <html> bad </html>", None),
        (None, "HTTP 422", None),
        ([], "HTTP 422: []", None),
    ],
)
def test_error_bodies_of_many_shapes(body: object, message: str, param: str | None) -> None:
    was = status_failure(422, {}, body)
    assert (was.message, was.param) == (message, param)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-abc123def456.", "Incorrect API key provided: [key]"),
        ("Authorization: Bearer abc.DEF-12== was refused", "Authorization: [key] was refused"),
        ("my odd secret word", "my [key] word"),
        ("cannot reach http://user:pass@host/v1", "cannot reach http://host/v1"),
        ("two\nlines", "two lines"),
        ("turn left, please", "turn left, please"),
    ],
)
def test_keys_are_scrubbed(text: str, shown: str) -> None:
    assert scrub(text, key="odd secret") == shown


def test_messages_are_cut_between_characters() -> None:
    assert scrub("好" * 1000) == "好" * 299 + "…"
