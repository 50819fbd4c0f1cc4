"""What an export makes of a row: a sample, or a reason why it has none. Rows are dicts of `steps` columns.

    for row in rows:
        reason = form.left_out(row)
        if reason is None: writer.add(row)

A row that a form has no place for is left out and counted, never mended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

Row = Mapping[str, Any]
WEIGHT = "credit_value"
"""The column that a sample's weight is read from: the credit of the decision as it was played, in [-1, 1]."""
KEYS = ("run_id", "episode_id", "tick")
"""Every sample names its row."""


class Reason(StrEnum):
    """Why a row is not in an export."""

    SUPERSEDED = "superseded"
    """Its episode was played again later."""
    SCENARIO = "scenario"
    RUBRIC = "rubric"
    POLICY = "policy"
    UNGRADED = "ungraded"
    MIN_CREDIT = "min_credit"
    """Its credit is below what was asked for, or it has none."""
    NO_CREDIT = "no_credit"
    """A weight was asked for, and it has none: none is made up."""
    NO_TEACHER = "no_teacher"
    NO_FRAME = "no_frame"
    NO_ACTION = "no_action"
    """Nothing was sent: the episode was over, in real time, before the answer came."""
    NOT_ASKED = "not_asked"
    """The teacher acted, so the policy has no answer here."""
    OUT_OF_SCHEMA = "out_of_schema"
    """The policy's answer was none of the options."""
    AGREES = "agrees"
    """Policy and teacher chose the same."""


class Writer(Protocol):
    """Puts samples into files of a folder."""

    def add(self, row: Row) -> None: ...

    def close(self) -> None:
        """After the last row; without it the files are not whole."""


class Nothing:
    """Writes nothing and refuses nothing."""

    def add(self, row: Row) -> None: ...

    def close(self) -> None: ...


class Form(Protocol):
    """A form that rows are exported in."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs, of `steps` and what is joined to them."""

    def left_out(self, row: Row) -> Reason | None: ...

    def writer(self, folder: Path | None) -> Writer:
        """None as folder: one that writes nothing, but refuses what a real one refuses."""


@dataclass
class Tally:
    """How many rows became samples, and why the others did not."""

    written: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        there = {reason.value: self.left_out[reason] for reason in Reason if self.left_out[reason]}
        return {"written": self.written, "left_out": there}


def write_samples(rows: Iterable[Row], form: Form, folder: Path | None, limit: int | None, tally: Tally) -> None:
    """Write the samples of `rows` into `folder`, the first `limit` of them; None as folder: only count."""
    writer = form.writer(folder)
    for row in rows:
        reason = form.left_out(row)
        if reason is not None:
            tally.left_out[reason] += 1
            continue
        writer.add(row)
        tally.written += 1
        if tally.written == limit:
            break
    writer.close()
