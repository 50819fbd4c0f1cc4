"""The simulation of the driver is of the real one: every unit is committed once, also where actors die."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.driver import make_units, measure
from rollouts.errors import RunStopped


def test_the_units_are_of_two_groups_and_numbered_in_order() -> None:
    units = make_units(5)
    assert [unit.number for unit in units] == [0, 1, 2, 3, 4]
    assert [unit.policy for unit in units] == ["oracle", "oracle", "oracle", "random", "random"]


@pytest.mark.slow
def test_every_unit_is_committed_once_though_actors_die(tmp_path: Path) -> None:
    cost = measure(actors=50, units=1_000, unit_s=0.05, deaths=0.02, out=tmp_path)
    assert cost.deaths > 0  # of 1,000 tasks, one in 50
    assert len(cost.memory_mib) == 10
    assert cost.driver_ms_a_unit > 0
    assert not list((tmp_path / "pretended" / ".staging").rglob("*.staged"))


@pytest.mark.slow
def test_actors_that_always_die_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match="it only pretended to live"):
        measure(actors=4, units=40, unit_s=0.01, deaths=1.0, out=tmp_path)
