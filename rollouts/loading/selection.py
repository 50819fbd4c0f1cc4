"""Which rows and columns are wanted, checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from rollouts.errors import UsageError
from rollouts.shards.schemas import STEPS

Disagreement = Literal["model", "effective"]
Names = str | Sequence[str]
TRIPLE = ("state", "frame", "teacher_action", "effective_action")
"""What a policy saw, and who did what: the columns that trainers take."""
OF_GRADES = {
    **{f"grade_{name}": name for name in ("grading", "source", "status", "cause", "label", "reason")},
    **{name: name for name in ("goal_achievement", "process_quality", "user_satisfaction")},
}
OF_CREDIT = {f"credit_{name}": name for name in ("alpha", "value", "r")}
"""Name here → name in the side table."""
GRADE_COLUMNS, CREDIT_COLUMNS = tuple(OF_GRADES), tuple(OF_CREDIT)
_GROUP = ("scenario", "rubric", "policy")


class Filters(TypedDict, total=False):
    """Which rows; every filter that is given must hold.

    scenario, rubric, policy: exact names, as in the columns.
    graded: rows of episodes whose newest grade (of `grader_id`, first repeat) is graded.
    disagreement: "model": the policy was asked, and its own answer is not the teacher's action (an answer that is null
        or out of schema is not). "effective": an action was sent, and it is not the teacher's. Where there is no
        teacher's action there is no disagreement.
    min_credit: rows whose `credit_value` (of `credit_id`) is at least that; rows without credit are left out.
    grader_id, credit_id: whose grades, which credit; the only one there by default.
    """

    scenario: Names
    rubric: Names
    policy: Names
    graded: bool
    disagreement: Disagreement
    min_credit: float
    grader_id: str
    credit_id: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns and filters that can be meant. `groups` maps scenario, rubric and policy to the names wanted."""

    columns: tuple[str, ...]
    groups: Mapping[str, frozenset[str]]
    graded: bool
    disagreement: Disagreement | None
    min_credit: float | None
    grader_id: str | None
    credit_id: str | None

    @property
    def reads_grades(self) -> bool:
        return self.graded or not OF_GRADES.keys().isdisjoint(self.columns)

    @property
    def reads_credit(self) -> bool:
        return self.min_credit is not None or not OF_CREDIT.keys().isdisjoint(self.columns)

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns that lie in the `steps` shards themselves."""
        return tuple(name for name in self.columns if name in STEPS.names)

    @property
    def joined(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in STEPS.names)

    def wants(self, scenario: str, rubric: str, policy: str) -> bool:
        names = dict(zip(_GROUP, (scenario, rubric, policy), strict=True))
        return all(names[part] in wanted for part, wanted in self.groups.items())


def select(columns: Sequence[str] | None, filters: Filters) -> Selection:
    """Check what was asked for; all of `steps` where no columns are named. Errors: `UsageError`."""
    _refuse_unknown("filter", filters, Filters.__annotations__)
    given: Mapping[str, Any] = filters
    selection = Selection(
        columns=_columns(columns),
        groups={part: _names(part, given[part]) for part in _GROUP if given.get(part) is not None},
        graded=bool(given.get("graded")),
        disagreement=_disagreement(given.get("disagreement")),
        min_credit=_min_credit(given.get("min_credit")),
        grader_id=given.get("grader_id"),
        credit_id=given.get("credit_id"),
    )
    if selection.grader_id is not None and not selection.reads_grades:
        raise UsageError(f"grader_id {selection.grader_id!r}: no grades are asked for, neither as filter nor as column")
    if selection.credit_id is not None and not selection.reads_credit:
        raise UsageError(f"credit_id {selection.credit_id!r}: no credit is asked for, neither as filter nor as column")
    return selection


def check_names(selection: Selection, planned: Iterable[tuple[str, str, str]]) -> None:
    """Refuse a scenario, rubric or policy that none of the runs planned, as (scenario, rubric, policy)."""
    there = list(planned)
    for place, part in enumerate(_GROUP):
        choices = {group[place] for group in there}
        for name in sorted(selection.groups.get(part, frozenset()) - choices):
            raise UsageError(f"{part} {name!r} is not in these runs; there is {', '.join(map(repr, sorted(choices)))}")


def _columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return tuple(STEPS.names)
    if isinstance(columns, str) or not columns:
        raise UsageError(f"columns {columns!r}: give a list of column names, such as {list(TRIPLE)}")
    _refuse_unknown("column", columns, (*STEPS.names, *GRADE_COLUMNS, *CREDIT_COLUMNS))
    return tuple(dict.fromkeys(columns))


def _refuse_unknown(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    choices = list(known)
    for name in given:
        if name not in choices:
            raise UsageError(f"there is no {what} {name!r}; choose from {', '.join(choices)}")


def _names(part: str, given: object) -> frozenset[str]:
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple | set) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{part} {given!r}: give a name, or a list of names")
    return frozenset(names)


def _disagreement(given: object) -> Disagreement | None:
    if given is None or given == "model" or given == "effective":  # noqa: PLR1714  mypy narrows these
        return given
    raise UsageError(f"disagreement {given!r}: give 'model' (the policy's own answer) or 'effective' (what was sent)")


def _min_credit(given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise UsageError(f"min_credit {given!r}: give a number; credit lies in [-1, 1]")
    return float(given)
