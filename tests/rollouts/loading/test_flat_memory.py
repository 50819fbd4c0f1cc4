"""Large frames: row groups of bounded bytes, and a pass that takes no more memory the longer it goes on."""

from __future__ import annotations

from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from rollouts.readers import iter_batches, torch_dataset
from tests.row_runs import large_run

ROWS = 2_000
SETTLED = 700
"""Rows until the memory of a pass is what it stays: windows, buffers, the allocators' own."""
MOST_GROWTH_MIB = 50
"""Less than half of what the frames after the settled ones have: 1,300 × 100 KB."""


def rss_mib() -> float:
    return float(psutil.Process().memory_info().rss) / 2**20


@pytest.mark.slow
def test_a_pass_over_large_frames_takes_flat_memory(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is an extra")
    run = large_run(tmp_path, ROWS)
    footers = [pq.ParquetFile(path).metadata for path in Path(run).glob("steps/*.parquet")]
    groups = [footer.row_group(n).total_byte_size for footer in footers for n in range(footer.num_row_groups)]
    assert sum(groups) > ROWS * 100_000
    assert max(groups) < 5 << 20
    for rows in (torch_dataset(run, ["frame"]), (row for b in iter_batches(run, ["frame"]) for row in b.column(0))):
        seen = [rss_mib() for number, _ in enumerate(rows) if number >= SETTLED and number % 50 == 0]
        assert len(seen) == (ROWS - SETTLED) / 50
        assert max(seen) - seen[0] < MOST_GROWTH_MIB
