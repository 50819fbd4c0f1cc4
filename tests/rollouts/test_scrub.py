"""Nothing that looks like a secret survives in an error text, and the text stays one bounded line."""

from __future__ import annotations

import pytest

from rollouts.scrub import MAX_CHARACTERS, describe_error, holds_secret, scrub


@pytest.mark.parametrize(
    "text",
    [
        "401 for sk-abc123MARKERxyz",
        "Authorization: Bearer MARKER.abc",
        "{'api_key': 'MARKER123'}",
        "api-key=MARKER123&x=1",
        "https://user:MARKER@host/path",
        "password = MARKER",
        "token: hf_MARKER1234567",
    ],
)
def test_secrets_are_redacted(text: str) -> None:
    assert "MARKER" not in scrub(text)
    assert "[redacted]" in scrub(text)


def test_values_of_secret_variables_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "plainlookingvalue")
    assert scrub("refused plainlookingvalue.") == "refused [redacted]."


def test_a_secret_in_a_text_is_known_by_the_variable_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "plainlookingvalue")
    monkeypatch.setenv("OTHER_TOKEN", "random")
    assert holds_secret("run --policy chat:plainlookingvalue") == "MY_API_KEY"
    assert holds_secret("run --policy random") is None, "too short to be one"


def test_ordinary_text_stays() -> None:
    assert scrub("max_tokens: 5 is too small; see http://host/v1") == "max_tokens: 5 is too small; see http://host/v1"


def test_one_bounded_line() -> None:
    assert scrub("a\n  b\r\n\tc") == "a b c"
    assert len(scrub("x" * 10_000)) == MAX_CHARACTERS


def test_describe_error() -> None:
    assert describe_error(ValueError("bad weights path X")) == "ValueError: bad weights path X"
