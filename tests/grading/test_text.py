from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.text import as_text, cut, cut_within, fence, quote


def test_a_cut_keeps_the_limit_and_adds_the_mark_beyond_it() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 5) == "abcde..."
    assert cut("健康值下降", 3) == "健康值..."


def test_a_cut_within_counts_its_mark() -> None:
    assert cut_within("健康值下降了", 5) == "健康值下…"
    assert cut_within("abcde", 5) == "abcde"


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("cafe\u0301s", 4, "caf"),
        ("ab\U0001f44d\U0001f3fdc", 3, "ab"),
        ("a\U0001f468\u200d\U0001f469b", 2, "a"),
        ("a\U0001f468\u200d\U0001f469b", 3, "a"),
        ("x❤\ufe0fy", 2, "x"),
    ],
)
def test_no_composed_character_is_broken(text: str, limit: int, kept: str) -> None:
    assert cut(text, limit, "") == kept


def test_a_row_of_marks_does_not_eat_the_whole_text() -> None:
    assert len(cut("a" + "\u0301" * 100, 50, "")) == 50


@given(st.text())
def test_quoted_text_stays_on_its_line_and_in_its_quotes(text: str) -> None:
    quoted = quote(text)
    assert len(quoted.splitlines()) == 1
    assert json.loads(quoted) == text
    quoted.encode()


def test_quoting_keeps_other_scripts_readable() -> None:
    assert quote("生命 100\u2028\n<b>") == '"生命 100\\u2028\\n<b>"'


@given(st.text(alphabet="`a\n", max_size=30))
def test_nothing_inside_closes_a_fence(text: str) -> None:
    row, _, rest = fence(text).partition("\n")
    assert rest == f"{text}\n{row}"
    assert row not in text


def test_params_and_results_as_text() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    assert as_text(None) == ""
    assert as_text("{ as it is }") == "{ as it is }"
    assert as_text({"方向": "左", "n": [1, 2]}) == '{"方向":"左","n":[1,2]}'
    assert as_text(Odd()) == "odd"
    assert as_text({"a": Odd()}).startswith("{'a'")
