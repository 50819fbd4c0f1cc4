"""What can stand in a row passes; what cannot is named, so that it is the policy's error and not the shard's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rollouts.policies.answer_check import checked_answer
from rollouts.records import Answer


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"options_shown": ("a", 3)}, r"options_shown\[1\] is int, not str"),
        ({"options_shown": "ab"}, "options_shown is str, not tuple"),
        ({"reply_tokens": (b"x",)}, r"reply_tokens\[0\] is bytes, not str"),
        ({"reply_logprobs": (-0.1, "y")}, r"reply_logprobs\[1\] is str, not"),
        ({"tokens_in": 2**63}, "tokens_in has more than 64 bits"),
        ({"tokens_out": 1.5}, "tokens_out is float, not"),
    ],
)
def test_what_no_column_can_hold_is_named(fields: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        checked_answer(Answer("a", **fields), None)


def test_what_a_column_can_hold_passes() -> None:
    answer = Answer(
        "a",
        options_shown=("b", "a"),
        reply_tokens=["a"],  # type: ignore[arg-type]  a user's list will do
        reply_logprobs=(np.float32(-0.5),),  # type: ignore[arg-type]  and numpy's numbers
        tokens_in=2**63 - 1,
    )
    assert checked_answer(answer, None) == answer
