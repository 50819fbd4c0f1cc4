"""What a run from the console needs: the driver's memory does not grow with the episodes, an actor's stays small."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.console import Started
from tests.processes import descendants

pytestmark = pytest.mark.slow
ACTOR_MIB = 300
GROWTH_MIB = 12


def rss_mib(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20


def test_the_driver_stays_flat_and_an_actor_below_300_mib(tmp_path: Path) -> None:
    """800 short episodes with frames, one actor; the first 200 are warming up."""
    words = ("run", "--scenario", "published", "--policy", "random", "--seeds", "0:400", "--step-cap", "4")
    run = Started(tmp_path, (*words, "--actors", "1", "--episodes-per-unit", "5", "--run-id", "r"))
    driver, drivers, actors = psutil.Process(run.process.pid), [], []
    run.wait_for("launch")
    while (told := run.wait_for("progress"))["episodes"] < 800:
        if told["episodes"] > 200:
            drivers.append(rss_mib(driver))
            actors += [rss_mib(p) for p in descendants("ray::RolloutActor", driver.pid)]
    assert run.end()[0] == 0
    assert len(actors) > 3
    assert max(actors) < ACTOR_MIB
    assert drivers[-1] - drivers[0] < GROWTH_MIB
