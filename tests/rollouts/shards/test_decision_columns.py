"""From Arrow to numbers: nulls, NaN, slices, and options that change on the way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rollouts.shards.decision_columns import decision_batches
from rollouts.shards.schemas import STEPS

OPTIONS = ["stay", "down"]


def row(**changes: Any) -> dict[str, Any]:
    return {
        "episode_id": "e",
        "tick": 0,
        "teacher_action": "down",
        "model_action": "down",
        "effective_action": "down",
        "acted_by": "policy",
        "asked": True,
        "out_of_schema": False,
        "schema_error": None,
        "options": OPTIONS,
        "probabilities": [0.25, 0.75],
        "frame": None,
        **changes,
    }


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([STEPS.field(name) for name in row()])
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def test_what_is_null_is_not_named_and_nan_stays_nan() -> None:
    lists = [[0.25, 0.75], None, [None, 0.5], [math.nan, 0.0], [None, None]]
    (made,) = decision_batches(batch(*(row(probabilities=given) for given in lists)))
    assert made.rows.named.tolist() == [[True, True], [False, False], [False, True], [True, True], [False, False]]
    assert made.rows.probabilities[0].tolist() == [0.25, 0.75]
    assert made.rows.probabilities[2, 1] == 0.5
    assert np.isnan(made.rows.probabilities[3, 0])


def test_actions_become_places_in_the_options() -> None:
    rows = [row(model_action="stay"), row(model_action=None), row(model_action="Down", teacher_action=None)]
    (made,) = decision_batches(batch(*rows))
    assert made.rows.own.tolist() == [0, -1, -1]
    assert made.rows.teacher.tolist() == [1, 1, -1]


@pytest.mark.parametrize(
    "sound",
    [
        {},
        {"asked": False, "model_action": None, "acted_by": "teacher"},
        {"out_of_schema": True, "model_action": "up", "acted_by": "fallback", "effective_action": "stay"},
        {"acted_by": None, "effective_action": None},
        {"out_of_schema": True, "model_action": "up", "acted_by": None, "effective_action": None},
    ],
)
def test_who_acted_fits_the_rest_of_the_row(sound: dict[str, Any]) -> None:
    (made,) = decision_batches(batch(row(), row(**sound)))
    assert made.misattributed().tolist() == [False, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"acted_by": "teacher"},
        {"asked": False},
        {"acted_by": "fallback"},
        {"acted_by": None},
        {"acted_by": "someone"},
        {"effective_action": "stay"},
        {"effective_action": None},
        {"out_of_schema": True},
        {"asked": False, "acted_by": "teacher"},
        {"asked": False, "model_action": None, "acted_by": "teacher", "effective_action": "stay"},
        {"out_of_schema": True, "model_action": "up", "acted_by": "fallback", "effective_action": "down"},
    ],
)
def test_a_row_that_says_another_acted_is_found(wrong: dict[str, Any]) -> None:
    (made,) = decision_batches(batch(row(), row(**wrong)))
    assert made.misattributed().tolist() == [False, True]


def test_a_slice_reads_its_own_rows() -> None:
    whole = batch(row(probabilities=[1.0, 0.0]), row(probabilities=None), row(probabilities=[0.0, 1.0]))
    (made,) = decision_batches(whole.slice(1, 2))
    assert made.rows.named.tolist() == [[False, False], [True, True]]
    assert made.rows.probabilities[1].tolist() == [0.0, 1.0]


def test_a_change_of_options_cuts_the_batch() -> None:
    turned = row(options=["down", "stay"], probabilities=[0.75, 0.25], tick=1)
    made = list(decision_batches(batch(row(), turned, row(tick=2))))
    assert [m.ticks for m in made] == [(0,), (1,), (2,)]
    assert [int(m.rows.own[0]) for m in made] == [1, 0, 1]


def test_only_the_episodes_asked_for() -> None:
    picture = {"bytes": b"x", "path": "p"}
    rows = batch(row(episode_id="a", frame=picture), row(episode_id="b", frame=picture), row(episode_id="a"))
    (made,) = decision_batches(rows, {"a"})
    assert made.episode_ids == ("a", "a")
    assert made.n_frames == 1
    assert list(decision_batches(rows, {"c"})) == []


def test_probabilities_that_fit_no_option_are_an_error() -> None:
    with pytest.raises(ValueError, match="3 probabilities for 2 options"):
        list(decision_batches(batch(row(probabilities=[0.1, 0.2, 0.7]))))
