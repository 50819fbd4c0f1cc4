from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="torch is an extra")

from benchmarks.reading import BATCH, linked, ours, speed, theirs, watched  # noqa: E402
from rollouts.errors import RunStopped  # noqa: E402
from tests.row_runs import place, row_run  # noqa: E402

ROWS = 200


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return place(row_run(tmp_path, [ROWS]))


def test_all_ways_give_the_same_pictures(run: str) -> None:
    """Ours (3, H, W), in any order; theirs (H, W, 3)."""
    wanted = sorted(frame.numpy().tobytes() for batch in ours([run], workers=1) for frame in batch.permute(0, 2, 3, 1))
    found = sorted(frame.numpy().tobytes() for batch in theirs([run]) for frame in batch)
    assert len(found) == ROWS
    assert found == wanted


def test_what_comes_after_the_first_batch_is_timed(run: str) -> None:
    measured = speed(ours([run], workers=0))
    assert measured.frames_per_s > 0
    assert measured.frames_per_cpu_s > 0


def test_a_run_is_linked_as_often_as_it_takes(run: str, tmp_path: Path) -> None:
    runs = linked(Path(run), 2 * ROWS + 1, tmp_path / "made")
    assert len(runs) == 3
    memory = watched(runs, settled_rows=BATCH)
    assert memory.rows == 3 * ROWS
    assert 0 < memory.settled_mib <= memory.most_mib
    with pytest.raises(RunStopped, match="200 rows are too few"):
        watched([run])
