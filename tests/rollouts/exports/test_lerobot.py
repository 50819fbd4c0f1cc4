"""The files of a LeRobot dataset; that LeRobot opens them is shown by test_lerobot_opens.py."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from rollouts.cli import main
from rollouts.exports.lerobot import LeRobot
from rollouts.exports.samples import Tally, write_samples
from rollouts.exports.source import Source
from tests.exported_runs import make, pixels, played
from tests.made_runs import Played
from tests.rollouts.exports.conftest import Exported

EPISODES = [(1, 3), (3, 1), (2, 2)]
"""Seed and length, in order."""


def meta(out: Path, name: str) -> Any:
    return json.loads((out / "meta" / name).read_text())


def test_frames_actions_and_places(exported: Exported) -> None:
    out, told = exported("lerobot")
    rows = pq.read_table(out / "data" / "chunk-000" / "file-000.parquet").to_pylist()
    assert told["left_out"] == {"superseded": 1}
    assert [row["index"] for row in rows] == list(range(6))
    assert [row["episode_index"] for row in rows] == [0, 0, 0, 1, 2, 2]
    assert [row["frame_index"] for row in rows] == [0, 1, 2, 0, 0, 1]
    assert [row["next.done"] for row in rows] == [False, False, True, True, False, True]
    assert [row["action"] for row in rows] == [[0, 1], [1, 0], [1, 0], [0, 1], [1, 0], [0, 1]]  # x was sent as `stay`
    assert {tuple(row["teacher_action"]) for row in rows} == {(0.0, 1.0)}
    assert [row["observation.state"] for row in rows] == [5.0, 4.0, 3.0, 5.0, 5.0, 4.0]  # health, the only counter


def test_an_episode_that_ended_while_the_policy_thought_is_done_too(known: Path, tmp_path: Path) -> None:
    """In real time the last row of an episode may have no action, and is left out."""
    source, tally = Source((str(known),), {}), Tally()
    form = LeRobot(source.instructions)
    late = (
        r | {"effective_action": None} if (r["seed"], r["tick"]) == (1, 2) else r for r in source.rows(form.columns)
    )
    write_samples(late, form, tmp_path, None, tally)
    rows = pq.read_table(tmp_path / "data" / "chunk-000" / "file-000.parquet").to_pylist()
    assert tally.as_dict() == {"written": 5, "left_out": {"no_action": 1}}
    assert [row["episode_index"] for row in rows] == [0, 0, 1, 2, 2]
    assert [row["next.done"] for row in rows] == [False, True, True, False, True]


def test_pictures_are_rgb_of_the_same_pixels(exported: Exported) -> None:
    """LeRobot does not convert: a palette PNG would come out as one channel of indices."""
    out, _ = exported("lerobot")
    rows = pq.read_table(out / "data" / "chunk-000" / "file-000.parquet").to_pylist()
    for row, (seed, tick) in zip(rows, [(1, 0), (1, 1), (1, 2), (3, 0), (2, 0), (2, 1)], strict=True):
        with Image.open(io.BytesIO(row["observation.image"]["bytes"])) as picture:
            assert picture.mode == "RGB"
            assert np.array_equal(np.asarray(picture), pixels(seed, tick))


def test_the_frame_rate_is_the_games(exported: Exported) -> None:
    """The counting game holds an action for 4 of 35 tics a second."""
    out, _ = exported("lerobot")
    info = meta(out, "info.json")
    assert (info["codebase_version"], info["fps"]) == ("v3.0", 8.75)
    assert (info["total_episodes"], info["total_frames"], info["splits"]) == (3, 6, {"train": "0:3"})
    assert info["features"]["observation.image"]["shape"] == [24, 32, 3]
    rows = pq.read_table(out / "data" / "chunk-000" / "file-000.parquet").to_pylist()
    assert [row["timestamp"] for row in rows[:3]] == pytest.approx([0.0, 4 / 35, 8 / 35])


def test_episodes_say_where_they_lie(exported: Exported) -> None:
    out, _ = exported("lerobot")
    episodes = pq.read_table(out / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    assert [(row["seed"], row["length"]) for row in episodes] == EPISODES
    assert [(row["dataset_from_index"], row["dataset_to_index"]) for row in episodes] == [(0, 3), (3, 4), (4, 6)]
    assert {(row["data/chunk_index"], row["data/file_index"]) for row in episodes} == {(0, 0)}
    assert episodes[1]["stats/observation.state/mean"] == [5.0]


def test_tasks_are_a_frame_by_task(exported: Exported) -> None:
    out, _ = exported("lerobot")
    tasks = pd.read_parquet(out / "meta" / "tasks.parquet")
    assert (tasks.iloc[0].name, list(tasks["task_index"])) == ("Go down.", [0])


def test_statistics_are_those_of_all_pixels_and_vectors(exported: Exported) -> None:
    out, _ = exported("lerobot")
    stats = meta(out, "stats.json")
    seen = np.stack([pixels(seed, tick) for seed, length in EPISODES for tick in range(length)]) / 255
    for name, true in (("mean", seen.mean((0, 1, 2))), ("std", seen.std((0, 1, 2))), ("max", seen.max((0, 1, 2)))):
        assert np.allclose(np.array(stats["observation.image"][name])[:, 0, 0], true)
    state = np.array([5, 4, 3, 5, 5, 4])
    assert stats["observation.state"]["mean"] == pytest.approx([state.mean()])
    assert stats["observation.state"]["std"] == pytest.approx([state.std()])
    assert stats["observation.state"]["q50"] == [4.0]
    assert stats["observation.state"]["count"] == [6]
    assert stats["action"]["mean"] == pytest.approx([0.5, 0.5])


def test_runs_of_one_shape_go_together(exported: Exported, known: Path, tmp_path: Path) -> None:
    make(tmp_path / "more", "more", ({7: played(7, "d")},), policy="other")
    out, _ = exported("lerobot", runs=(known, tmp_path / "more" / "more"))
    episodes = pq.read_table(out / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    assert [(row["run_id"], row["policy"], row["seed"]) for row in episodes][2:] == [
        ("known", "half", 2),
        ("more", "other", 7),
    ]


def test_runs_of_different_shapes_are_refused(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "small", "small", ({7: played(7, "d", size=(12, 16))},))
    words = ("export", str(known), str(tmp_path / "small" / "small"), "--format", "lerobot", "--out")
    for dry in ((), ("--dry-run",)):
        assert main([*words, str(tmp_path / "out"), *dry]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "counting.rule.half.7.0 of run small has picture (12, 16), not (24, 32)" in line
        assert not (tmp_path / "out").exists()


def test_a_damaged_frame_names_its_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = played(7, "dd").turns
    make(tmp_path, "torn", ({7: Played((turns[0], replace(turns[1], picture=(turns[1].picture or b"")[:-40])))},))
    assert main(["export", str(tmp_path / "torn"), "--format", "lerobot", "--out", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "run torn, counting.rule.half.7.0, decision 1: the frame cannot be decoded" in line
    assert not (tmp_path / "out").exists()
