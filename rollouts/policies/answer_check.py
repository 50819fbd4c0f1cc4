"""Whether what a policy answered is an answer: the types of its fields, and who acted. An option it need not be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from rollouts.records import Answer

_TEXTS = (*("cause", "detail", "parse_rule", "policy_text", "messages", "raw_reply", "finish_reason", "model_version"),)
_NUMBERS = ("confidence", "latency_ms", "option_mass", "probability_bound")
_COUNTS = ("tokens_in", "tokens_out")
_LISTS = ("options_shown", "reply_tokens", "reply_logprobs")
_NUMBER = int | float | np.number
_COLUMN_BITS = 64


def checked_answer(answer: object, teacher_action: str | None) -> Answer:
    """The answer with plain types; TypeError or ValueError where it breaks the policy's contract. `teacher_action` is
    what the scenario's teacher says just then."""
    if not isinstance(answer, Answer):
        raise TypeError(f"it answered with a {type(answer).__name__}, not a rollouts.records.Answer")
    choice = answer.choice
    if choice is not None and not isinstance(choice, str):
        answer = replace(answer, choice=str(choice))
    _check_types(answer)
    _check_actor(answer, teacher_action)
    if any(type(value) is not float for value in answer.probabilities.values()):
        answer = replace(answer, probabilities={name: float(p) for name, p in answer.probabilities.items()})
    return answer


def _check_types(answer: Answer) -> None:
    """What stands in the row's other columns. Errors: TypeError or ValueError naming the field."""
    for names, wanted in ((_TEXTS, str), (_NUMBERS, _NUMBER), (_COUNTS, int | np.integer), (_LISTS, tuple | list)):
        for name in names:
            if (value := getattr(answer, name)) is not None:
                _check_type(name, value, wanted)
    _check_items("options_shown", answer.options_shown, str)
    _check_items("reply_tokens", answer.reply_tokens, str)
    _check_items("reply_logprobs", answer.reply_logprobs, _NUMBER)
    for name in _COUNTS:
        if int(getattr(answer, name) or 0).bit_length() >= _COLUMN_BITS:
            raise ValueError(f"{name} has more than {_COLUMN_BITS} bits")


def _check_items(name: str, items: Iterable[object] | None, wanted: Any) -> None:
    for number, item in enumerate(items or ()):
        _check_type(f"{name}[{number}]", item, wanted)


def _check_type(name: str, value: object, wanted: Any) -> None:
    if not isinstance(value, wanted):
        raise TypeError(f"{name} is {type(value).__name__}, not {getattr(wanted, '__name__', wanted)}")


def _check_actor(answer: Answer, teacher_action: str | None) -> None:
    """Only the scenario's own teacher can act in the policy's place, and then the policy was not asked."""
    if answer.acted_by not in ("policy", "teacher"):
        raise ValueError(f"acted_by is {answer.acted_by!r}, not 'policy' or 'teacher'")
    if answer.asked is not (answer.acted_by == "policy"):
        raise ValueError(f"asked is {answer.asked!r} where the {answer.acted_by} acted")
    if not answer.asked and answer.choice != teacher_action:
        raise ValueError(f"the teacher is said to have chosen {answer.choice!r}, but chose {teacher_action!r}")
