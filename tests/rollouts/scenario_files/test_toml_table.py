from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.errors import UsageError
from rollouts.scenario_files.toml_table import Table

TOP = Table(
    "f.toml",
    "",
    {"word": "one", "words": ["one", "two"], "n": 3, "x": 0.5, "on": True, "in": {"deep": {"n": 0}}, "rows": [{}, {}]},
)


def test_values_come_by_type() -> None:
    assert (TOP.text("word"), TOP.texts("word"), TOP.texts("words")) == ("one", ("one",), ("one", "two"))
    assert (TOP.count("n"), TOP.number("n"), TOP.number("x"), TOP.switch("on")) == (3, 3, 0.5, True)
    assert [row.name for row in TOP.tables("rows")] == ["rows[1]", "rows[2]"]


def test_what_is_not_there_is_nothing() -> None:
    assert (TOP.text("a"), TOP.texts("a"), TOP.count("a"), TOP.number("a")) == (None, (), None, None)
    assert (TOP.switch("a"), TOP.table("a"), TOP.tables("a")) == (False, None, [])


def deep() -> Table:
    inner = TOP.table("in")
    assert inner is not None
    found = inner.table("deep")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: TOP.text("n"), 'f.toml: n is "3": must be a text'),
        (lambda: TOP.count("on"), 'f.toml: on is "True": must be a whole number from 1 to 2147483647'),
        (lambda: TOP.number("on"), 'f.toml: on is "True": must be a finite number'),
        (lambda: TOP.switch("n"), 'f.toml: n is "3": must be true or false'),
        (lambda: TOP.table("n"), 'f.toml: n is "3": must be a table'),
        (lambda: TOP.tables("in"), "must be an array of tables"),
        (lambda: deep().count("n"), 'f.toml: in.deep.n is "0": must be a whole number from 1'),
        (lambda: deep().needed_text("name"), "f.toml: in.deep.name is missing"),
        (lambda: deep().check_keys(("m",)), 'f.toml: key "in.deep.n" is unknown (did you mean "in.deep.m"?)'),
        (lambda: TOP.chosen("words", ("one", "three")), 'f.toml: words "two" is unknown'),
        (lambda: TOP.function("word", 1), "f.toml: word: unknown function 'one'; give module:function"),
        (lambda: Table("f.toml", "", {"f": "shutil:which"}).function("f", 9), "must be a function of 9 arguments"),
        (
            lambda: Table("f.toml", "", {"f": "math:pi"}).function("f", 3),
            'f.toml: f is "math:pi": must be a function of 3 arguments',
        ),
    ],
)
def test_a_wrong_value_is_told_with_file_key_and_value(read: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read()
    assert said in str(caught.value)
