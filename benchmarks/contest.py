"""Lets the four loops take turns: round by round, scenario by scenario, each with the whole machine to itself."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import bare, ours, replaced
from benchmarks.spans import MODES, Cell, Mode, Span
from rollouts.frames import FrameFormat
from rollouts.scenarios.registry import PUBLISHED_SCENARIOS, SCENARIOS
from rollouts.scenarios.scenario import Scenario

FRAMES: dict[Mode, FrameFormat] = {"text": "none", "frames": "png"}
FIRST_SEED = 1_000


@dataclass(frozen=True)
class Settings:
    """`episodes` a core in each measurement of (a), (b) and (c); (d) is so slow that it plays `replaced_episodes`."""

    cores: int
    rounds: int = 3
    episodes: int = 32
    episodes_per_unit: int = 4
    replaced_episodes: int = 1


def contest(settings: Settings, means: ours.Means) -> Iterator[Cell]:
    """Every measurement, as it is made. The modes change their order with the round, so that no drift favours one."""
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + settings.episodes * settings.cores))
    scenarios = [SCENARIOS[name] for name in PUBLISHED_SCENARIOS]
    replays = {scenario.name: bare.record(scenario, seeds) for scenario in scenarios}
    modes = list(MODES)
    for number in range(settings.rounds):
        turn = number % len(modes)
        for scenario in scenarios:
            for mode in (*modes[turn:], *modes[:turn]):
                spans = _measure(mode, scenario, replays[scenario.name], settings, means)
                yield Cell(mode, scenario.name, number, spans)


def _measure(
    mode: Mode, scenario: Scenario, replays: Sequence[bare.Replay], settings: Settings, means: ours.Means
) -> tuple[Span, ...]:
    if mode == "bare":
        return bare.measure(scenario, [replays[core :: settings.cores] for core in range(settings.cores)])
    folder = Path(tempfile.mkdtemp(prefix="doom-rollouts-bench-"))
    try:
        seeds = tuple(replay.seed for replay in replays)
        if mode == "replaced":
            return (replaced.measure(scenario, seeds[: settings.replaced_episodes], folder),)
        order = ours.Order(scenario.name, seeds, FRAMES[mode], settings.cores, settings.episodes_per_unit)
        return ours.measure(order, folder, means)
    finally:
        shutil.rmtree(folder)
