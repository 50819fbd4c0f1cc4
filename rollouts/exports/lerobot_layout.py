"""The files of a LeRobot dataset, layout v3.0: what is in `meta/`, and the schema of `data/`.

Source: `lerobot.datasets.lerobot_dataset` and `.utils` of lerobot 0.4.4. Pictures are lossless PNG in the data files
(dtype `image`), so no video is encoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from rollouts.exports.samples import Row
from rollouts.shards.schemas import FRAME

CODEBASE_VERSION = "v3.0"
TICS_A_SECOND = 35
FILES_A_CHUNK = 1_000
DATA_FILE_MB = 100
IMAGE, STATE, ACTION, TEACHER = "observation.image", "observation.state", "action", "teacher_action"
REWARD, DONE = "next.reward", "next.done"
COUNTERS = ("health", "ammo", "kills")
_FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_PATH = f"data/{_FILE}"
_ALWAYS = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64"}
_ALWAYS = {**_ALWAYS, "task_index": "int64"}
_TYPES = {"float32": pa.float32(), "int64": pa.int64(), "bool": pa.bool_()}


@dataclass(frozen=True)
class Shape:
    """What all rows of one dataset must share: a LeRobot dataset has one set of features and one frame rate."""

    options: tuple[str, ...]
    tics: int
    counters: tuple[str, ...]
    has_teacher: bool
    picture: tuple[int, int]

    @classmethod
    def of(cls, row: Row, picture: tuple[int, int]) -> Shape:
        """`picture` is (height, width)."""
        counters = tuple(name for name in COUNTERS if row[name] is not None)
        return cls(tuple(row["options"]), row["tics"], counters, row["teacher_action"] is not None, picture)

    def unlike(self, other: Shape) -> str:
        """In words how it differs from `other`, "" where it does not."""
        mine, others = asdict(self), asdict(other)
        return "; ".join(f"{name} {mine[name]}, not {others[name]}" for name in mine if mine[name] != others[name])

    @property
    def vectors(self) -> dict[str, tuple[str, ...]]:
        """Feature → the names of its entries. An action is 1 for the option that was chosen and 0 for the others."""
        state = {STATE: self.counters} if self.counters else {}
        teacher = {TEACHER: self.options} if self.has_teacher else {}
        return {**state, ACTION: self.options, **teacher, REWARD: ("reward",)}

    def features(self) -> dict[str, Any]:
        """As `meta/info.json` has them."""
        image = {"dtype": "image", "shape": [*self.picture, 3], "names": ["height", "width", "channels"]}
        vectors = {name: _feature("float32", names) for name, names in self.vectors.items()}
        always = {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in _ALWAYS.items()}
        return {IMAGE: image, **vectors, DONE: _feature("bool", ("done",)), **always}

    def schema(self) -> pa.Schema:
        """Of the data files."""
        features = self.features()
        fields = [(name, FRAME if name == IMAGE else _type(feature)) for name, feature in features.items()]
        pictures = {"info": {"features": {IMAGE: {"_type": "Image"}}}}
        return pa.schema(fields, metadata={"huggingface": json.dumps(pictures)})

    def info(self, episodes: int, frames: int, tasks: int) -> dict[str, Any]:
        """`meta/info.json`."""
        return {
            "codebase_version": CODEBASE_VERSION,
            "robot_type": "doom",
            "total_episodes": episodes,
            "total_frames": frames,
            "total_tasks": tasks,
            "chunks_size": FILES_A_CHUNK,
            "data_files_size_in_mb": DATA_FILE_MB,
            "video_files_size_in_mb": 200,
            "fps": TICS_A_SECOND / self.tics,
            "splits": {"train": f"0:{episodes}"},
            "data_path": DATA_PATH,
            "video_path": None,
            "features": self.features(),
        }


def data_path(folder: Path, number: int) -> Path:
    """The data file of that number, its folder made."""
    path = folder / DATA_PATH.format(**place(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def place(number: int) -> dict[str, int]:
    return {"chunk_index": number // FILES_A_CHUNK, "file_index": number % FILES_A_CHUNK}


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False), encoding="utf-8")


def write_tasks(folder: Path, tasks: Sequence[str]) -> None:
    """`meta/tasks.parquet`: a pandas frame whose index is the task's text, as its metadata tells pandas."""
    columns = [_pandas("task_index", "int64", "int64"), _pandas("task", "unicode", "object")]
    pandas = {"index_columns": ["task"], "column_indexes": [], "columns": columns}
    schema = pa.schema([("task_index", pa.int64()), ("task", pa.string())], metadata={"pandas": json.dumps(pandas)})
    table = pa.table({"task_index": range(len(tasks)), "task": list(tasks)}, schema=schema)
    pq.write_table(table, folder / "meta" / "tasks.parquet")


def write_episodes(folder: Path, episodes: Sequence[Mapping[str, Any]]) -> None:
    """`meta/episodes/`, a row an episode."""
    path = folder / "meta" / "episodes" / _FILE.format(**place(0))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(episodes)), path)


def _feature(dtype: str, names: Sequence[str]) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [len(names)], "names": list(names)}


def _type(feature: Mapping[str, Any]) -> pa.DataType:
    """One entry is a number, several are a list of fixed length."""
    entry, n = _TYPES[feature["dtype"]], feature["shape"][0]
    return entry if n == 1 else pa.list_(entry, n)


def _pandas(name: str, pandas_type: str, numpy_type: str) -> dict[str, Any]:
    return {
        "name": name,
        "field_name": name,
        "pandas_type": pandas_type,
        "numpy_type": numpy_type,
        "metadata": None,
    }
