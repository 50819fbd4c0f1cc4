"""The loops that are compared play the very same episodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from benchmarks import bare, replaced
from rollouts.scenarios.registry import SCENARIOS


@pytest.mark.slow
def test_the_bare_loop_replays_the_oracles_episodes_on_every_core() -> None:
    scenario = SCENARIOS["defend_the_center"]
    replays = bare.record(scenario, scenario.seeds[:2])
    spans = bare.measure(scenario, [replays[:1], replays[1:]])
    assert [span.decisions for span in spans] == [len(replay.actions) for replay in replays]
    assert all(span.seconds > 0 and span.start_up_s > 0 for span in spans)


@pytest.mark.slow
def test_the_replaced_method_plays_the_same_episode_and_leaves_its_files(tmp_path: Path) -> None:
    scenario = SCENARIOS["defend_the_center"]
    (replay,) = bare.record(scenario, scenario.seeds[:1])
    span = replaced.measure(scenario, scenario.seeds[:1], tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "triples.jsonl").read_text().splitlines()]
    assert [scenario.options.index(line["action"]) for line in lines] == list(replay.actions)
    assert span.decisions == len(lines)
    with Image.open(tmp_path / lines[0]["frame"]) as picture:
        assert (picture.mode, picture.size) == ("RGB", (320, 240))
    assert 0 < span.start_up_s < span.seconds
