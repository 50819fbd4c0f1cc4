"""Slugs: one path component, distinct names stay distinct, nothing escapes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.naming import counted, slug
from rollouts.records import EpisodeKey

SAFE = re.compile(r"[a-z0-9][a-z0-9._-]{0,68}")


@pytest.mark.parametrize("name", ["oracle", "health_gathering", "gpt-5.2", "a" * 60])
def test_safe_names_stay(name: str) -> None:
    assert slug(name) == name


@pytest.mark.parametrize(
    "name", ["org/model:8b", "a b%20c", "名前", "x=y", "../up", "m" * 300, "", "Oracle", "..", ".x"]
)
def test_odd_names_become_one_safe_component_with_their_digest(name: str) -> None:
    assert SAFE.fullmatch(slug(name))
    assert re.search(r"-[0-9a-f]{8}$", slug(name))


def test_the_digest_is_of_the_exact_name() -> None:
    # printf 'org/model:8b' | sha256sum
    assert slug("org/model:8b") == "org-model-8b-eb827690"


@given(st.lists(st.text(max_size=80), unique=True, max_size=20))
def test_distinct_names_have_distinct_slugs(names: list[str]) -> None:
    assert len({slug(name) for name in names}) == len(names)


def test_episode_id() -> None:
    assert EpisodeKey("health_gathering", "rule", "oracle", 7, 2).episode_id == "health_gathering.rule.oracle.7.2"


@pytest.mark.parametrize(
    ("n", "noun", "words"),
    [
        *((0, "call", "0 calls"), (1, "call", "1 call"), (1_000, "call", "1,000 calls"), (1, "reply", "1 reply")),
        *((2, "reply", "2 replies"), (3, "summary entry", "3 summary entries"), (2, "replay", "2 replays")),
    ],
)
def test_counts_in_words(n: int, noun: str, words: str) -> None:
    assert counted(n, noun) == words
