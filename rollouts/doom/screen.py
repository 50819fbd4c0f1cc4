"""Which picture an engine is asked for: palette indices where they hold the very pixels of RGB, else RGB."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rollouts.doom.engine import Engine
from rollouts.doom.palette import learn_palette
from rollouts.scenarios.scenario import Capture, EngineSetup

Palette = NDArray[np.uint8]
_PROBE_SEED, _PROBE_FRAMES, _PROBE_TICS = 1, 24, 8
_palettes: dict[tuple[EngineSetup, tuple[str, ...]], Palette | None] = {}


def start_engine(setup: EngineSetup, buttons: Sequence[str], capture: Capture) -> tuple[Engine, Palette | None]:
    """A running engine and the palette of its pictures, None when they are RGB (or nobody looks at them).

    The palette of a set-up is learnt once a process, at the price of a second engine.
    """
    if capture != "indexed":
        return Engine(setup, buttons, "rgb" if capture else "indexed"), None
    engine = Engine(setup, buttons, "indexed")
    try:
        palette = _find_palette(engine, setup, buttons)
    except BaseException:
        engine.close()
        raise
    if palette is not None:
        return engine, palette
    engine.close()
    return Engine(setup, buttons, "rgb"), None


def _find_palette(engine: Engine, setup: EngineSetup, buttons: Sequence[str]) -> Palette | None:
    """Compares an RGB engine with the index engine, on the same tics of the same seed."""
    key = (setup, tuple(buttons))
    if key not in _palettes:
        other = Engine(setup, buttons, "rgb")
        try:
            indices, colours = _probe(engine, len(buttons)), _probe(other, len(buttons))
        finally:
            other.close()
        _palettes[key] = learn_palette(indices, colours, engine.wads())
    return _palettes[key]


def _probe(engine: Engine, n_buttons: int) -> list[NDArray[np.uint8]]:
    """Frames of a fixed episode, with each button in turn."""
    engine.seek(_PROBE_SEED, 0)
    frames: list[NDArray[np.uint8]] = []
    with engine.watched():
        while len(frames) < _PROBE_FRAMES and (state := engine.game.get_state()) is not None:
            pressed = [float(i == len(frames) % n_buttons) for i in range(n_buttons)]
            frames.append(state.screen_buffer)
            engine.game.make_action(pressed, _PROBE_TICS)
    return frames
