"""Whether what a policy answered is an answer: the types of its fields, and who acted. An option it need not be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rollouts.records import Answer

_TEXTS = (*("cause", "detail", "parse_rule", "policy_text", "messages", "raw_reply", "finish_reason", "model_version"),)
_NUMBERS = ("confidence", "latency_ms", "option_mass", "probability_bound")
_COUNTS = ("tokens_in", "tokens_out")


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
    """What stands in the row's other columns. Errors: TypeError naming the field."""
    for names, wanted in ((_TEXTS, str), (_NUMBERS, int | float | np.number), (_COUNTS, int | np.integer)):
        for name in names:
            value = getattr(answer, name)
            if value is not None and not isinstance(value, wanted):
                raise TypeError(f"{name} is {type(value).__name__}, not {getattr(wanted, '__name__', wanted)}")


def _check_actor(answer: Answer, teacher_action: str | None) -> None:
    """Only the scenario's own teacher can act in the policy's place, and then the policy was not asked."""
    if answer.acted_by not in ("policy", "teacher"):
        raise ValueError(f"acted_by is {answer.acted_by!r}, not 'policy' or 'teacher'")
    if answer.asked is not (answer.acted_by == "policy"):
        raise ValueError(f"asked is {answer.asked!r} where the {answer.acted_by} acted")
    if not answer.asked and answer.choice != teacher_action:
        raise ValueError(f"the teacher is said to have chosen {answer.choice!r}, but chose {teacher_action!r}")
