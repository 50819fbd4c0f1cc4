"""Turns batches of `steps` rows into the columns that numbers are made of. Copies no text and no picture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from rollouts.calibration import Bools, Floats, Ints
from rollouts.metrics import DecisionColumns, encode_actions

COLUMNS = (
    "episode_id",
    "tick",
    "teacher_action",
    "model_action",
    "effective_action",
    "acted_by",
    "asked",
    "out_of_schema",
    "schema_error",
    "options",
    "probabilities",
    "frame.path",
)
_PACKED = ("options", "probabilities", "frame.path")


@dataclass(frozen=True, slots=True)
class DecisionBatch:
    """Rows over the same options, with what else is counted of them. `n_frames` rows have a picture; `effective` (n,)
    holds the indices of the actions that were sent, -1 where none was."""

    episode_ids: tuple[str, ...]
    ticks: tuple[int, ...]
    rows: DecisionColumns
    effective: Ints
    acted_by: tuple[str | None, ...]
    schema_errors: tuple[str | None, ...]
    n_frames: int

    def misattributed(self) -> Bools:
        """(n,): rows that say another acted than the one whose action was sent, or who was asked though nobody was."""
        rows, who = self.rows, np.array(self.acted_by, np.object_)
        own = rows.asked & ~rows.out_of_schema & (self.effective == rows.own) & (rows.own >= 0)
        teacher = ~rows.asked & (rows.own < 0) & (self.effective == rows.teacher) & (rows.teacher >= 0)
        first_option = rows.asked & rows.out_of_schema & (self.effective == 0)
        right = {"policy": own, "teacher": teacher, "fallback": first_option, None: self.effective < 0}
        fitting = [(who == name) & fits for name, fits in right.items()]
        wrong: Bools = ~np.any(fitting, axis=0)
        return wrong


def decision_batches(batch: Any, counted: Collection[str] | None = None) -> Iterator[DecisionBatch]:
    """Read a `pyarrow.RecordBatch` of COLUMNS; of the episodes in `counted` alone, where given.

    Cut where `options` change, for the place of a probability says which option it belongs to.
    """
    if counted is not None:
        ids = batch.column("episode_id").to_pylist()
        batch = batch.take(np.array([i for i, episode_id in enumerate(ids) if episode_id in counted], np.int64))
    start = 0
    for options, run in groupby(batch.column("options").to_pylist()):
        length = sum(1 for _ in run)
        yield _decision_batch(batch.slice(start, length), tuple(options))
        start += length


def _decision_batch(batch: Any, options: Sequence[str]) -> DecisionBatch:
    column = {name: batch.column(name).to_pylist() for name in COLUMNS if name not in _PACKED}
    named, probabilities = _probabilities(batch.column("probabilities"), len(options))
    return DecisionBatch(
        episode_ids=tuple(column["episode_id"]),
        ticks=tuple(column["tick"]),
        rows=DecisionColumns(
            asked=np.array(column["asked"], np.bool_),
            out_of_schema=np.array(column["out_of_schema"], np.bool_),
            own=encode_actions(column["model_action"], options),
            teacher=encode_actions(column["teacher_action"], options),
            named=named,
            probabilities=probabilities,
        ),
        effective=encode_actions(column["effective_action"], options),
        acted_by=tuple(column["acted_by"]),
        schema_errors=tuple(column["schema_error"]),
        n_frames=batch.num_rows - batch.column("frame").null_count,
    )


def _probabilities(lists: Any, k: int) -> tuple[Bools, Floats]:
    """(n, k) each: which options are named, and their numbers. A list that is null names none."""
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    given = lengths > 0
    if not (lengths[given] == k).all():
        raise ValueError(f"a row has {int(lengths[given].max())} probabilities for {k} options")
    flat = lists.flatten()
    named = np.zeros((len(lists), k), np.bool_)
    probabilities = np.zeros((len(lists), k), np.float64)
    named[given] = flat.is_valid().to_numpy(zero_copy_only=False).reshape(-1, k)
    probabilities[given] = flat.to_numpy(zero_copy_only=False).reshape(-1, k)
    return named, probabilities
