"""The bookkeeping of the curve; what it shows is measured, not tested."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is an extra (train)")


def test_rounds_come_by_each_number_of_rows() -> None:
    from examples.dagger import Round
    from examples.learning_curve import rounds_of

    assert rounds_of("cloning", (250, 500, 1_000)) == [Round(1, 250), Round(1, 250), Round(1, 500)]
    daggered = [Round(1, 125), Round(0.5, 125), Round(0.25, 250), Round(0.125, 500)]
    assert rounds_of("dagger", (250, 500, 1_000)) == daggered


def test_learners_are_averaged_seed_by_seed(tmp_path: Path) -> None:
    from examples.learning_curve import Curve, Point, table

    points = (
        Point("cloning", 250, 0, (1.0, 4.0), 0.5),
        Point("cloning", 250, 1, (3.0, 6.0), 0.75),
        Point("dagger", 250, 0, (7.0, 8.0), 0.9),
    )
    curve = Curve("basic", "reward", (0, 1), (9.0, 9.0), points)
    assert (curve.of("cloning", 250), curve.of("dagger", 250)) == ((2.0, 5.0), (7.0, 8.0))
    assert "| 250 | 3.50 [2.00, 5.00] | 7.50 [7.00, 8.00] | 4.00 [3.00, 5.00] | 0.625 and 0.900 |" in table(curve)
    curve.write(tmp_path / "curve.json")
    assert Curve.read(tmp_path / "curve.json") == curve
