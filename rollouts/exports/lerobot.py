"""Rows as a LeRobot dataset (layout v3.0): an episode is an episode, a decision a frame, the instructions the task.

`action` is what was sent and `teacher_action` what the rule prescribes: a vector over the options, 1 where chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollouts.errors import UsageError
from rollouts.exports import lerobot_layout as layout
from rollouts.exports.lerobot_layout import ACTION, DONE, IMAGE, REWARD, STATE, TEACHER, Shape
from rollouts.exports.prompts import Told
from rollouts.exports.samples import KEYS, Reason, Row, Writer
from rollouts.exports.table_files import ParquetFile
from rollouts.exports.value_counts import PixelCounts, VectorCounts
from rollouts.frames import encode
from rollouts.loading.pictures import decode_planes, planes_shape
from rollouts.records import Frame

_JPEG = b"\xff\xd8"


@dataclass(frozen=True)
class LeRobot:
    """`instructions` give the tasks; where there are none the scenario's name does."""

    instructions: Told
    file_bytes: int = layout.DATA_FILE_MB << 20

    columns = (
        *(*KEYS, "scenario", "rubric", "policy", "seed", "tics", "options", "frame", "teacher_action"),
        *("effective_action", "reward", *layout.COUNTERS),
    )

    def left_out(self, row: Row) -> Reason | None:
        if row["effective_action"] is None:
            return Reason.NO_ACTION
        return Reason.NO_FRAME if row["frame"] is None else None

    def writer(self, folder: Path | None) -> Writer:
        return OneShape() if folder is None else LeRobotWriter(folder, self.instructions, self.file_bytes)


class OneShape:
    """Holds all rows to the options, frame rate, counters and picture size of the first."""

    def __init__(self) -> None:
        self.shape: Shape | None = None

    def add(self, row: Row) -> None:
        """Errors: `UsageError`; `DamagedFrame`."""
        *_, height, width = planes_shape([row["frame"]["bytes"]], lambda _: _where(row))
        shape = Shape.of(row, (height, width))
        self.shape = self.shape or shape
        if unlike := shape.unlike(self.shape):
            raise UsageError(
                f"a LeRobot dataset has one set of features and one frame rate: {row['episode_id']} of run "
                f"{row['run_id']} has {unlike}; export them apart, by run or with --scenario"
            )

    def close(self) -> None: ...


class Counts:
    """The statistics of one episode, or of all."""

    def __init__(self) -> None:
        self.pixels = PixelCounts()
        self.vectors: dict[str, VectorCounts] = {}

    def add(self, picture: NDArray[np.uint8], vectors: dict[str, list[float]]) -> None:
        self.pixels.add(picture)
        for name, vector in vectors.items():
            self.vectors.setdefault(name, VectorCounts()).add(vector)

    def merge(self, other: Counts) -> None:
        self.pixels.merge(other.pixels)
        for name, counts in other.vectors.items():
            self.vectors.setdefault(name, VectorCounts()).merge(counts)

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Feature → statistic → value."""
        vectors = {name: counts.statistics() for name, counts in self.vectors.items()}
        return {IMAGE: self.pixels.statistics(), **vectors}


class LeRobotWriter:
    """Writes rows that come episode by episode, tick by tick. Memory holds a row group, and a line an episode."""

    def __init__(self, folder: Path, instructions: Told, file_bytes: int) -> None:
        self._folder = folder
        self._instructions = instructions
        self._file_bytes = file_bytes
        self._one = OneShape()
        self._file: ParquetFile | None = None
        self._files = 0
        self._rows = 0
        self._tasks: dict[str, int] = {}
        self._episode: dict[str, Any] | None = None
        self._newest: dict[str, Any] | None = None
        self._episodes: list[dict[str, Any]] = []
        self._of_episode = Counts()
        self._of_all = Counts()

    def add(self, row: Row) -> None:
        self._one.add(row)
        shape, picture = self._shape, _pixels(row)
        if self._episode is None or any(self._episode[key] != row[key] for key in ("run_id", "episode_id")):
            self._end_episode()
            self._episode = self._begin_episode(row)
        vectors = _vectors(row, shape)
        self._of_episode.add(picture, vectors)
        frame = {"bytes": _as_rgb(row["frame"]["bytes"], picture), "path": row["frame"]["path"]}
        plain = {name: vector[0] if len(vector) == 1 else vector for name, vector in vectors.items()}
        self._put_newest(done=False)
        self._newest = {IMAGE: frame, **plain, **self._numbers(shape)}
        self._episode["length"] += 1
        self._rows += 1

    @property
    def _shape(self) -> Shape:
        assert self._one.shape is not None, "there is no row yet"
        return self._one.shape

    def close(self) -> None:
        """The last episode, then `meta/`."""
        self._end_episode()
        self._close_file()
        if self._one.shape is None:
            return
        info = self._shape.info(len(self._episodes), self._rows, len(self._tasks))
        layout.write_json(self._folder / "meta" / "info.json", info)
        layout.write_json(self._folder / "meta" / "stats.json", self._of_all.statistics())
        layout.write_tasks(self._folder, list(self._tasks))
        layout.write_episodes(self._folder, self._episodes)

    def _begin_episode(self, row: Row) -> dict[str, Any]:
        told = self._instructions[row["run_id"], row["scenario"], row["rubric"]] or row["scenario"]
        self._tasks.setdefault(told, len(self._tasks))
        return {
            "episode_index": len(self._episodes),
            "tasks": [told],
            "length": 0,
            "dataset_from_index": self._rows,
            **{name: row[name] for name in ("run_id", "episode_id", "scenario", "rubric", "policy", "seed")},
        }

    def _end_episode(self) -> None:
        if self._episode is None:
            return
        self._put_newest(done=True)
        statistics = self._of_episode.statistics()
        self._episodes.append(
            {
                **self._episode,
                "dataset_to_index": self._rows,
                **{f"data/{name}": value for name, value in layout.place(self._files - 1).items()},
                **{f"meta/episodes/{name}": value for name, value in layout.place(0).items()},
                **{f"stats/{name}/{key}": v for name, found in statistics.items() for key, v in found.items()},
            }
        )
        self._of_all.merge(self._of_episode)
        self._of_episode, self._episode = Counts(), None
        if self._file is not None and self._file.bytes >= self._file_bytes:
            self._close_file()

    def _numbers(self, shape: Shape) -> dict[str, Any]:
        """Where a frame stands. Thinking in real time is no part of its time stamp."""
        assert self._episode is not None
        frame = self._episode["length"]
        return {
            "timestamp": frame * shape.tics / layout.TICS_A_SECOND,
            "frame_index": frame,
            "episode_index": self._episode["episode_index"],
            "index": self._rows,
            "task_index": self._tasks[self._episode["tasks"][0]],
        }

    def _put_newest(self, done: bool) -> None:
        """An episode lies in one file. Its last frame is told by what follows: in real time an episode may end while
        the policy thinks, in a row without an action, which has no place here."""
        if self._newest is None:
            return
        if self._file is None:
            self._file = ParquetFile(layout.data_path(self._folder, self._files), self._shape.schema())
            self._files += 1
        self._file.add({**self._newest, DONE: done})
        self._newest = None

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _pixels(row: Row) -> NDArray[np.uint8]:
    """(H, W, 3) RGB. Errors: `DamagedFrame` naming the row."""
    (planes,) = decode_planes([row["frame"]["bytes"]], lambda _: _where(row))
    return np.ascontiguousarray(planes.transpose(1, 2, 0))


def _where(row: Row) -> str:
    return f"run {row['run_id']}, {row['episode_id']}, decision {row['tick']}"


def _vectors(row: Row, shape: Shape) -> dict[str, list[float]]:
    state = {STATE: [float(row[name]) for name in shape.counters]} if shape.counters else {}
    teacher = {TEACHER: _chosen(row["teacher_action"], shape.options)} if shape.has_teacher else {}
    return {**state, ACTION: _chosen(row["effective_action"], shape.options), **teacher, REWARD: [row["reward"]]}


def _chosen(action: str, options: Sequence[str]) -> list[float]:
    return [float(option == action) for option in options]


def _as_rgb(stored: bytes, picture: NDArray[np.uint8]) -> bytes:
    """A JPEG as it is; a palette PNG as an RGB one of the same pixels, since LeRobot would take indices for grey."""
    return stored if stored.startswith(_JPEG) else encode(Frame(picture), "png-rgb")
