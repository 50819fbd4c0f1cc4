from __future__ import annotations

import pickle
from dataclasses import replace

from rollouts.calls.chat_records import ChatMessage, ChatRequest, ReplySchema

REQUEST = ChatRequest("m", (ChatMessage("user", "你好"),), max_tokens=5, schema=ReplySchema("s", {"type": "object"}))


def test_equal_requests_have_equal_keys() -> None:
    assert REQUEST.key() == replace(REQUEST, messages=(ChatMessage("user", "你好"),)).key()
    assert len(REQUEST.key()) == 64


def test_a_key_is_that_of_the_question_alone_whether_it_was_asked_for_before() -> None:
    """A key that is known is no part of what is equal, sent to other processes, or taken over by a changed copy."""
    fresh = replace(REQUEST)
    key = REQUEST.key()
    assert fresh == REQUEST
    assert repr(fresh) == repr(REQUEST)
    assert (pickle.loads(pickle.dumps(REQUEST)).key(), fresh.key(), REQUEST.key()) == (key,) * 3
    assert replace(REQUEST, repeat=1).key() != key


def test_whatever_differs_changes_the_key() -> None:
    others = [
        replace(REQUEST, model="n"),
        replace(REQUEST, messages=(ChatMessage("system", "你好"),)),
        replace(REQUEST, messages=(ChatMessage("user", "你好", ("data:image/png;base64,AA==",)),)),
        replace(REQUEST, max_tokens=6),
        replace(REQUEST, temperature=0.0),
        replace(REQUEST, seed=0),
        replace(REQUEST, schema=None),
        replace(REQUEST, top_logprobs=0),
        replace(REQUEST, repeat=1),
        replace(REQUEST, grading=1),
    ]
    assert len({REQUEST.key(), *(other.key() for other in others)}) == len(others) + 1


def test_a_lone_surrogate_has_a_key_too() -> None:
    assert replace(REQUEST, messages=(ChatMessage("user", "\ud800"),)).key() != REQUEST.key()
