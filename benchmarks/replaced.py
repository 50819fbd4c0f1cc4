"""(d) The method that this project replaces, kept as it was: one process, a new engine for each seed, RGB24 + labels +
depth in both scenarios, a Pillow PNG file a decision with its default settings, and JSON lines."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import vizdoom as vzd
from PIL import Image

from benchmarks.spans import Span
from rollouts.doom.perception import ITEMS, MONSTERS
from rollouts.records import DepthBands, Snapshot, Thing
from rollouts.scenarios.scenario import Scenario

VARIABLES = (vzd.GameVariable.HEALTH, vzd.GameVariable.SELECTED_WEAPON_AMMO, vzd.GameVariable.KILLCOUNT)


def measure(scenario: Scenario, seeds: Sequence[int], folder: Path, frames: bool = True) -> Span:
    """Play an episode of each seed into `folder`. Starting an engine a seed is part of the method, and of its time;
    `start_up_s` says how much of it that was."""
    begun_s = time.perf_counter()
    decisions, starting_s = 0, 0.0
    with (folder / "triples.jsonl").open("w") as lines:
        for seed in seeds:
            start_s = time.perf_counter()
            game = _start(scenario, seed, folder)
            starting_s += time.perf_counter() - start_s
            decisions += _play(scenario, game, seed, lines, folder / str(seed) if frames else None)
            game.close()
    return Span(decisions, time.perf_counter() - begun_s, starting_s)


def _start(scenario: Scenario, seed: int, folder: Path) -> vzd.DoomGame:
    assert scenario.engine is not None
    assert isinstance(scenario.engine.cfg, str)
    game = vzd.DoomGame()
    game.load_config(str(Path(vzd.scenarios_path) / scenario.engine.cfg))
    game.set_doom_config_path(str(folder / "_vizdoom.ini"))
    game.set_available_buttons([getattr(vzd.Button, b) for action in scenario.actions for b in action.buttons])
    game.set_available_game_variables(list(VARIABLES))
    game.set_screen_resolution(vzd.ScreenResolution.RES_320X240)
    game.set_screen_format(vzd.ScreenFormat.RGB24)
    game.set_render_hud(False)
    game.set_render_crosshair(True)
    game.set_labels_buffer_enabled(True)
    game.set_depth_buffer_enabled(True)
    game.set_window_visible(False)
    game.set_sound_enabled(False)
    game.set_seed(seed)
    game.init()
    return game


def _play(scenario: Scenario, game: vzd.DoomGame, seed: int, lines: TextIO, pictures: Path | None) -> int:
    assert scenario.teacher is not None
    step, previous = 0, None
    if pictures:
        pictures.mkdir()
    game.new_episode()
    while not game.is_episode_finished() and step < scenario.step_cap:
        state = game.get_state()
        snapshot = _look(state)
        text = scenario.describe(snapshot, previous)
        action = scenario.teacher(snapshot)
        name = f"{seed}/{step:04d}.png"
        if pictures:
            Image.fromarray(np.array(state.screen_buffer)).save(pictures / f"{step:04d}.png")
        line = {"seed": seed, "step": step, "state": text, "frame": name, "teacher": action, "action": action}
        lines.write(json.dumps(line) + "\n")
        game.make_action([float(option == action) for option in scenario.options], scenario.tics)
        previous, step = action, step + 1
    return step


def _look(state: Any) -> Snapshot:
    depth = np.array(state.depth_buffer)
    height, width = depth.shape
    middle = depth[height // 3 : 2 * height // 3]
    fifth = width // 5
    bands = (middle[:, :fifth], middle[:, 2 * fifth : 3 * fifth], middle[:, 4 * fifth :])
    health, ammo, kills = (int(value) for value in state.game_variables)
    return Snapshot(
        game_tic=state.tic,
        health=health,
        ammo=max(ammo, 0),
        kills=kills,
        things=_things(state.labels, width, height),
        depth=DepthBands(*(float(np.median(band)) for band in bands)),
    )


def _things(labels: Any, width: int, height: int) -> tuple[Thing, ...]:
    things = []
    for label in labels:
        name = label.object_name.removesuffix("Vzd")
        monster = name in MONSTERS or name != label.object_name
        if label.width and label.height and (monster or name in ITEMS):
            cx = (label.x + label.width / 2) / width
            things.append(Thing(name, "monster" if monster else "item", cx, label.height / height))
    return tuple(sorted(things, key=lambda thing: thing.size, reverse=True))
