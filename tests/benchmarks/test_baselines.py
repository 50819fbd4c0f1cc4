"""The table of random and the teacher: its numbers, its form, and that README and registry say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.baselines import Measured, difference, table, write_into
from rollouts.scenarios.registry import PUBLISHED_SCENARIOS, SCENARIOS

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
ROW = re.compile(r"^\| (\w+) \| (\w+) \((?:\w+)\) \| (-?[\d.]+) \[.*?\] \| (?:(-?[\d.]+) \[.*?\]|none) \|(.*)\|$", re.M)


def test_the_difference_is_of_pairs() -> None:
    apart = difference(Measured("basic", (0, 1, 2), (1.0, 5.0, 9.0), (3.0, 8.0, 13.0)))
    assert apart is not None
    assert (apart.mean, apart.low, apart.high) == (3.0, 2.0, 4.0)
    assert difference(Measured("predict_position", (0,), (1.0,), ())) is None


def test_the_table_is_markdown_and_goes_between_its_marks(tmp_path: Path) -> None:
    told = table([Measured("basic", (0,), (1.0,), (2.0,)), Measured("predict_position", (0,), (0.0,), ())])
    assert told.splitlines()[2:] == [
        "| basic | reward (points) | 1.00 [undefined] | 2.00 [undefined] | 1.00 [undefined] |",
        "| predict_position | success (share) | 0.00 [undefined] | none |  |",
    ]
    path = tmp_path / "r.md"
    path.write_text("before\n<!-- baselines: python -m benchmarks.baselines -->\nold\n<!-- /baselines -->\nafter\n")
    write_into(path, told)
    write_into(path, told)
    assert path.read_text().splitlines()[0] == "before"
    assert path.read_text().count("| basic |") == 1
    assert "old" not in path.read_text()
    assert path.read_text().endswith("\nafter\n")


def test_what_the_registry_says_is_what_the_readme_says() -> None:
    """But for the two published scenarios, whose baselines are of their published seeds."""
    rows = {name: (float(random), taught and float(taught)) for name, _, random, taught, _ in ROW.findall(README)}
    assert set(rows) == set(SCENARIOS)
    for name in set(SCENARIOS) - set(PUBLISHED_SCENARIOS):
        baselines = SCENARIOS[name].baselines
        assert baselines is not None
        assert rows[name][0] == pytest.approx(baselines.random, abs=0.006)
        assert (rows[name][1] or None) == (baselines.oracle and pytest.approx(baselines.oracle, abs=0.006))


def test_every_teacher_of_the_readme_beats_random_clearly() -> None:
    """The interval of the paired difference is above 0."""
    apart = {name: rest for name, _, _, taught, rest in ROW.findall(README) if taught}
    assert set(apart) == {s.name for s in SCENARIOS.values() if s.teacher is not None}
    for name, told in apart.items():
        low = re.search(r"\[(-?[\d.]+),", told)
        assert low is not None, name
        assert float(low[1]) > 0, name
