from __future__ import annotations

import pytest

from benchmarks.ours import Unit, steady
from benchmarks.spans import Cell, Mode, Span, core_us, mode_rate, pooled, ratio, report
from rollouts.errors import RunStopped


def cell(mode: Mode, scenario: str, rate: int, number: int = 0, cores: int = 2) -> Cell:
    return Cell(mode, scenario, number, tuple(Span(rate, float(cores), 0.5) for _ in range(cores)))


def round_of(bare: int, text: int, frames: int, replaced: int, number: int) -> list[Cell]:
    rates: dict[Mode, int] = {"bare": bare, "text": text, "frames": frames, "replaced": replaced}
    return [cell(mode, scenario, rate, number) for mode, rate in rates.items() for scenario in ("x", "y")]


def test_workers_rates_add_up() -> None:
    assert Cell("bare", "x", 0, (Span(100, 2.0, 0), Span(300, 3.0, 0))).decisions_per_s == 150.0


def test_pooling_weighs_decisions_not_seconds() -> None:
    """100 decisions at 100/s and 100 at 300/s take 1.333 s: 150/s."""
    assert pooled([100.0, 300.0]) == pytest.approx(150.0)


def test_the_rate_of_a_mode_is_the_median_round_of_each_scenario_pooled() -> None:
    cells = [cell("bare", "x", rate, number) for number, rate in enumerate((100, 90, 900))]
    cells += [cell("bare", "y", 300, number) for number in range(3)]
    assert mode_rate(cells, "bare") == pytest.approx(150.0)


def test_ratios_are_taken_within_a_round() -> None:
    """A machine that slows to a half between the rounds changes no ratio."""
    cells = round_of(1000, 900, 700, 10, 0) + round_of(500, 450, 350, 5, 1)
    assert ratio(cells, "text", "bare") == pytest.approx(0.9)
    assert ratio(cells, "frames", "replaced") == pytest.approx(70.0)


def test_a_decisions_time_by_subtraction() -> None:
    """Two cores at 2,000/s take 1,000 µs of a core; at 1,600/s 1,250; at 1,250/s 1,600."""
    assert core_us(2_000, 2) == 1_000.0
    told = report(round_of(2_000, 1_600, 1_250, 50, 0), cores=2)
    assert list(told["decision_us_of_a_core"].values()) == pytest.approx([1_000.0, 250.0, 350.0, 1_600.0])
    assert told["ratios"]["b/a"] == {"value": pytest.approx(0.8), "goal": 0.9}
    assert told["modes"]["bare"]["start_up_s"] == 0.5


def test_the_steady_stretch_leaves_out_the_first_unit_and_the_lonely_end() -> None:
    units = [Unit(10.0, 999), Unit(11.0, 100), Unit(12.0, 120), Unit(15.0, 999)]
    assert steady(units, until_s=12.5, start_up_s=3.0) == Span(220, 2.0, 3.0)


def test_too_little_to_measure_is_said() -> None:
    with pytest.raises(RunStopped, match="--episodes"):
        steady([Unit(10.0, 100)], until_s=12.0, start_up_s=1.0)
