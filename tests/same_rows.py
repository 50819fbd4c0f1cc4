"""Whether two runs hold the same data: all rows and columns, wall clock and placement apart.

Of a frame its name, mode and pixels count, not the file's bytes: the compressor (isal) now and then packs the same
pixels into a byte more or less.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from rollouts.shards.schemas import EPISODES_EXEMPT, STEPS_EXEMPT


def comparable(run: Path, table: str) -> pa.Table:
    """A table's rows in the order of their keys, without the columns that may differ."""
    exempt, key = (STEPS_EXEMPT, "tick") if table == "steps" else (EPISODES_EXEMPT, "unit")
    shards = [pq.read_table(path, partitioning=None) for path in sorted((run / table).glob("part-*.parquet"))]
    whole = pa.concat_tables(shards)
    kept = [name for name in whole.column_names if name not in exempt]
    return whole.sort_by([("episode_id", "ascending"), (key, "ascending")]).select(kept)


def assert_same_data(one: Path, other: Path) -> None:
    """Raises AssertionError naming the first column that differs."""
    for table in ("steps", "episodes"):
        left, right = comparable(one, table), comparable(other, table)
        assert left.num_rows == right.num_rows, f"{table}: {left.num_rows} rows and {right.num_rows}"
        assert left.schema == right.schema, f"{table}: the schemas differ"
        for name in left.column_names:
            values = zip(left.column(name).to_pylist(), right.column(name).to_pylist(), strict=True)
            differing = [row for row, (a, b) in enumerate(values) if a != b and _content(a) != _content(b)]
            told = _told(left, right, name, differing[:5])
            assert not differing, f"{table}.{name} differs in {len(differing)} rows: {told}"


def _told(left: pa.Table, right: pa.Table, name: str, rows: list[int]) -> str:
    """The first rows that differ; of pictures their modes, and whether the pixels do."""
    return "; ".join(
        f"{left['episode_id'][row]} row {row}: {_seen(left[name][row].as_py())} and {_seen(right[name][row].as_py())}"
        for row in rows
    )


def _content(value: object) -> object:
    """A picture's name, mode and pixels; anything else as it is."""
    if not (isinstance(value, dict) and value.get("bytes")):
        return value
    with Image.open(io.BytesIO(value["bytes"])) as picture:
        return value["path"], picture.mode, hashlib.sha256(picture.convert("RGB").tobytes()).hexdigest()


def _seen(value: object) -> object:
    return f"{len(value['bytes'])} bytes, {_content(value)}" if isinstance(value, dict) and value else value
