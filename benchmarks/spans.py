"""What is measured and how it is summed up: pure numbers, no engine."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["bare", "text", "frames", "replaced"]
MODES: dict[Mode, str] = {
    "bare": "(a) the bare engine loop: make_action and get_state with the same buffers, one process a core",
    "text": "(b) our rollouts without frames: Ray actors, text, rule, shards, commits",
    "frames": "(c) our rollouts with PNG frames into Parquet",
    "replaced": "(d) the method this replaces: one process, an engine a seed, RGB24, labels, depth, Pillow PNGs, JSONL",
}
RATIOS: dict[str, tuple[Mode, Mode, float]] = {
    "b/a": ("text", "bare", 0.90),
    "c/a": ("frames", "bare", 0.70),
    "c/d": ("frames", "replaced", 20.0),
}


@dataclass(frozen=True)
class Span:
    """One worker's steady stretch: decisions made in `seconds`, after `start_up_s` of getting ready."""

    decisions: int
    seconds: float
    start_up_s: float


@dataclass(frozen=True)
class Cell:
    """One measurement: all workers of a mode at the same time, in one scenario, in one round."""

    mode: Mode
    scenario: str
    round: int
    spans: tuple[Span, ...]

    @property
    def decisions_per_s(self) -> float:
        """The sum of the workers' rates."""
        return sum(span.decisions / span.seconds for span in self.spans)


def pooled(rates: Iterable[float]) -> float:
    """The rate over equally many decisions of each scenario: the harmonic mean."""
    return statistics.harmonic_mean(list(rates))


def scenario_rate(cells: Sequence[Cell], mode: Mode, scenario: str) -> float:
    """The median over the rounds."""
    return statistics.median(c.decisions_per_s for c in cells if (c.mode, c.scenario) == (mode, scenario))


def mode_rate(cells: Sequence[Cell], mode: Mode) -> float:
    scenarios = dict.fromkeys(c.scenario for c in cells if c.mode == mode)
    return pooled(scenario_rate(cells, mode, scenario) for scenario in scenarios)


def ratio(cells: Sequence[Cell], over: Mode, under: Mode) -> float:
    """The median over the rounds of the ratio within a round, for rounds lie close together in time."""
    return statistics.median(
        mode_rate([c for c in cells if c.round == number], over)
        / mode_rate([c for c in cells if c.round == number], under)
        for number in sorted({c.round for c in cells})
    )


def core_us(rate: float, cores: int) -> float:
    """Microseconds of one core that a decision takes."""
    return 1e6 * cores / rate


def report(cells: Sequence[Cell], cores: int) -> dict[str, Any]:
    """Everything that `rollouts bench --json` prints, as plain JSON values."""
    scenarios = tuple(dict.fromkeys(c.scenario for c in cells))
    rates = {mode: mode_rate(cells, mode) for mode in MODES}
    return {
        "cores": cores,
        "rounds": len({c.round for c in cells}),
        "modes": {mode: _mode(cells, mode, scenarios) for mode in MODES},
        "ratios": {
            name: {"value": ratio(cells, over, under), "goal": goal} for name, (over, under, goal) in RATIOS.items()
        },
        "decision_us_of_a_core": _made_of(rates, cores),
    }


def _mode(cells: Sequence[Cell], mode: Mode, scenarios: Iterable[str]) -> dict[str, Any]:
    mine = [c for c in cells if c.mode == mode]
    return {
        "what": MODES[mode],
        "decisions_per_s": mode_rate(cells, mode),
        "by_scenario": {scenario: scenario_rate(cells, mode, scenario) for scenario in scenarios},
        "by_round": [c.decisions_per_s for c in mine],
        "start_up_s": statistics.median(max(s.start_up_s for s in c.spans) for c in mine),
        "decisions": sum(s.decisions for c in mine for s in c.spans),
    }


def _made_of(rates: Mapping[Mode, float], cores: int) -> dict[str, float]:
    """By subtraction: what each layer adds to the time of a decision, both scenarios pooled."""
    bare, text, frames = (core_us(rates[mode], cores) for mode in ("bare", "text", "frames"))
    return {
        "engine": bare,
        "snapshot, text, rule, loop, row, commit, Ray": text - bare,
        "PNG and frame column": frames - text,
        "all": frames,
    }
