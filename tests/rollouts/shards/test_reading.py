from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from rollouts.shards.reading import to_rows

ROOT = Path(__file__).resolve().parents[3]
TIME = pa.timestamp("us", tz="UTC")


def test_rows_are_those_that_arrow_gives() -> None:
    times = [datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC), None, datetime(1969, 12, 31, 23, 59, tzinfo=UTC)]
    batch = pa.record_batch({"n": [1, 2, 3], "at": pa.array(times, TIME), "words": [["a"], None, []]})
    assert to_rows(batch) == batch.to_pylist()
    assert [row["at"] for row in to_rows(batch)] == times
    assert to_rows(batch.slice(1)) == batch.slice(1).to_pylist()


def test_reading_times_does_not_import_pandas(tmp_path: Path) -> None:
    """A fresh process, since this one has it."""
    pq.write_table(pa.table({"at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], TIME)}), tmp_path / "x.parquet")
    code = (
        "import sys; from rollouts.shards.reading import iter_batches, to_rows\n"
        "from rollouts.store.storage import open_storage\n"
        f"(batch,) = iter_batches(open_storage({str(tmp_path)!r}), 'x.parquet')\n"
        "print(to_rows(batch)[0]['at'].year, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "2026 False\n"
