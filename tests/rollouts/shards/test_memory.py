"""Large frames: row groups stay small, and neither writing nor reading them once takes more than a few of them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from rollouts.records import EpisodeKey
from rollouts.shards.reading import iter_batches
from rollouts.shards.writing import StepWriter
from rollouts.store.storage import LocalStorage
from tests.shard_doubles import OPTIONS, RUN_ID, decision

FRAME = bytes(100_000)
ROWS = 6_000
MOST_MIB = 100


def rss_mib() -> float:
    return float(psutil.Process().memory_info().rss) / 2**20


@pytest.mark.slow
def test_six_hundred_megabytes_of_frames_are_written_and_read_in_flat_memory(tmp_path: Path) -> None:
    path = tmp_path / "steps.spool"
    before, highest = rss_mib(), 0.0
    writer = StepWriter(path, "part-0000000", RUN_ID, 4, OPTIONS)
    for index in range(ROWS // 300):
        writer.begin(EpisodeKey("defend_the_center", "rule", "oracle", 1, index))
        for tick in range(300):
            writer.append(decision(tick), FRAME)
            highest = max(highest, rss_mib()) if tick % 50 == 0 else highest
        writer.commit_episode()
    writer.close()
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    assert sum(groups) > ROWS * len(FRAME)
    assert max(groups) < 5 << 20
    rows = 0
    for batch in iter_batches(LocalStorage(tmp_path), path.name):
        rows += len(batch)
        highest = max(highest, rss_mib())
    assert rows == ROWS
    assert highest - before < MOST_MIB
