"""Random and the teacher in every stock scenario, on the same seeds: the table of README.md.

    python -m benchmarks.baselines [--seeds 32] [--first-seed N] [--scenario NAME …] [--into README.md]

Each scenario under its own tics and step cap, one episode a seed, the scenario's seeds first and then the following
numbers; or N and the following: seeds that nobody looked at when the rules were written. Intervals are 95 % bootstrap
intervals over episodes (benchmarks/paired.py), that of the difference over pairs. Both policies play through the loop
of a run, so a run comes out at the same numbers.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.paired import Interval, interval, play, seeds_of
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.scenario import Scenario

_BEGIN, _END = "<!-- baselines: python -m benchmarks.baselines -->", "<!-- /baselines -->"
_HEADINGS = ("scenario", "metric", "random", "teacher", "teacher - random, paired")


@dataclass(frozen=True)
class Measured:
    """The metric of each episode, seed by seed. `oracle` is empty where the scenario has no teacher."""

    scenario: str
    seeds: tuple[int, ...]
    random: tuple[float, ...]
    oracle: tuple[float, ...]


def measure(name: str, count: int, first_seed: int | None = None) -> Measured:
    """Play `count` seeds with random, and with the teacher if there is one."""
    scenario = SCENARIOS[name]
    seeds = seeds_of(scenario, count) if first_seed is None else tuple(range(first_seed, first_seed + count))
    oracle = _metrics(scenario, "oracle", seeds) if scenario.teacher is not None else ()
    return Measured(name, seeds, _metrics(scenario, "random", seeds), oracle)


def _metrics(scenario: Scenario, policy: str, seeds: Sequence[int]) -> tuple[float, ...]:
    return tuple(episode.metric for episode in play(scenario, policy, seeds))


def difference(measured: Measured) -> Interval | None:
    """The teacher minus random on the same seeds; None without a teacher."""
    if not measured.oracle:
        return None
    return interval([teacher - random for teacher, random in zip(measured.oracle, measured.random, strict=True)])


def table(rows: Iterable[Measured]) -> str:
    """In Markdown, a line a scenario."""
    lines = ["| " + " | ".join(_HEADINGS) + " |", "|" + "---|" * len(_HEADINGS)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def _cells(row: Measured) -> tuple[str, ...]:
    metric = SCENARIOS[row.scenario].metric
    apart = difference(row)
    taught = (str(interval(row.oracle)), str(apart)) if apart else ("none", "")
    return (row.scenario, f"{metric.name} ({metric.unit})", str(interval(row.random)), *taught)


def write_into(path: Path, told: str) -> None:
    """Put the table between its two marks in a Markdown file. Errors: ValueError where they are missing."""
    before, _, rest = path.read_text().partition(_BEGIN)
    _, mark, after = rest.partition(_END)
    if not mark:
        raise ValueError(f"{path} does not have {_BEGIN} and {_END}")
    path.write_text(f"{before}{_BEGIN}\n\n{told}\n\n{_END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--first-seed", type=int)
    parser.add_argument("--scenario", action="append", choices=tuple(SCENARIOS))
    parser.add_argument("--into", type=Path, help="a Markdown file with the marks of the table")
    asked = parser.parse_args()
    names = asked.scenario or tuple(SCENARIOS)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=fresh) as processes:
        rows = list(processes.map(partial(measure, count=asked.seeds, first_seed=asked.first_seed), names))
    told = table(rows)
    print(told)
    if asked.into is not None:
        write_into(asked.into, told)


if __name__ == "__main__":
    main()
