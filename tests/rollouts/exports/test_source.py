"""What an export reads while its run goes on."""

from __future__ import annotations

from pathlib import Path

from rollouts.exports.samples import Tally
from rollouts.exports.source import Source
from tests.exported_runs import make


def test_what_is_committed_meanwhile_is_neither_read_nor_counted(tmp_path: Path) -> None:
    """The last unit (2 rows, which replace one) is committed once the run was opened."""
    make(tmp_path)
    last, aside = tmp_path / "known" / "episodes" / "part-0000003.parquet", tmp_path / "aside"
    last.rename(aside)
    source, tally = Source((str(tmp_path / "known"),), {"policy": "half"}), Tally()
    assert len(source.runs[0].shards) == 2
    aside.rename(last)
    source.count_left_out(tally)
    rows = list(source.rows(["seed", "tick"]))
    assert [(row["seed"], row["tick"]) for row in rows] == [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0)]
    assert tally.as_dict()["left_out"] == {}
