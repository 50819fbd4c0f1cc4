"""One ViZDoom process set up for a scenario: start, seek to an episode, close; and what it was made of.

With `environment.py` the only importer of vizdoom.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import vizdoom as vzd

from rollouts.doom.cfg import PACKAGE, cfg_path, load_cfg
from rollouts.doom.engine_home import EngineHome, check_program, unlink_shared_memory
from rollouts.doom.game_files import check_wad, here
from rollouts.errors import EngineLost, ScenarioError
from rollouts.scenarios.scenario import EngineSetup, Scenario

WIDTH, HEIGHT = 320, 240
TRACKED = ("HEALTH", "SELECTED_WEAPON_AMMO", "KILLCOUNT", "DAMAGE_TAKEN", "ITEMCOUNT", "SELECTED_WEAPON")
"""Engine variables that every state carries, in this order, before the scenario's own further ones."""
BUTTONS: tuple[str, ...] = tuple(vzd.Button.__members__)
VARIABLES: tuple[str, ...] = tuple(vzd.GameVariable.__members__)
ENGINE_VERSION: str = vzd.__version__

Game = vzd.DoomGame
Picture = Literal["indexed", "rgb"]
_SCREENS = {"indexed": vzd.ScreenFormat.DOOM_256_COLORS8, "rgb": vzd.ScreenFormat.RGB24}
_PROGRAM = PACKAGE / "vizdoom"
_DEFAULT_GAME = PACKAGE / "freedoom2.wad"
ENGINE_ERRORS = (
    vzd.ViZDoomErrorException,
    vzd.ViZDoomUnexpectedExitException,
    vzd.ViZDoomIsNotRunningException,
    vzd.SharedMemoryException,
    vzd.MessageQueueException,
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The files that a scenario plays with; hashes are sha256 hex.

    `wad` is None where the cfg plays a map of `game`, the base game (IWAD), itself.
    """

    engine_version: str
    cfg: str
    cfg_sha256: str
    wad: str | None
    wad_sha256: str | None
    game: str
    game_sha256: str


_ONE_BIRTH = threading.Lock()
"""The library ends the whole process now and then where two of its threads start engines at once (seen with 32)."""


class Engine:
    """A running engine. Episode `index` of `seed` is what a fresh engine made for that seed plays at its reset `index`.

    Errors: `ScenarioError` for files or names that are wrong, `EngineLost` when the process dies or cannot start.
    """

    def __init__(self, setup: EngineSetup, buttons: Sequence[str], picture: Picture) -> None:
        self.game = _configure(setup, buttons, picture)
        check_program(_PROGRAM)
        self._home = EngineHome(_PROGRAM)
        self._seed = self._index = -1
        self.game.set_vizdoom_path(str(self._home.launcher))
        self.game.set_doom_config_path(str(self._home.config))
        try:
            with _ONE_BIRTH, self.watched(), _quiet_birth():
                self.game.init()
            if (pid := self.pid()) is not None:
                unlink_shared_memory(pid)
            self._check_buttons(buttons)
        except BaseException:
            self.close()
            raise

    def _check_buttons(self, buttons: Sequence[str]) -> None:
        found = tuple(button.name for button in self.game.get_available_buttons())
        if found != tuple(buttons):
            raise ScenarioError(f"the engine's buttons are {found}, the scenario's {tuple(buttons)}")

    def seek(self, seed: int, index: int) -> None:
        """Start that episode. After `set_seed` a running engine needs one extra `new_episode` (init began one)."""
        with self.watched():
            if seed == self._seed and index > self._index:
                resets = index - self._index
            else:
                self.game.set_seed(seed)
                resets = index + 2
            self._seed = self._index = -1
            for _ in range(resets):
                self.game.new_episode()
            self._seed, self._index = seed, index

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Turn the engine's own exceptions into `EngineLost`."""
        try:
            yield
        except ENGINE_ERRORS as error:
            raise self.lost(error) from error

    def lost(self, error: Exception) -> EngineLost:
        """What to raise for an exception of the engine."""
        last_words = self._home.last_words()
        return EngineLost(f"engine lost: {error}" + (f" (its last words: {last_words})" if last_words else ""))

    def wads(self) -> list[Path]:
        """The files that it plays with, in the order in which it prefers them."""
        return [Path(name) for name in (self.game.get_doom_scenario_path(), self.game.get_doom_game_path()) if name]

    def pid(self) -> int | None:
        """The engine's process id, None when it is gone."""
        return self._home.pid()

    def close(self) -> None:
        """End the process and remove its folder. Killing first makes this safe with a stopped or hung engine."""
        self._home.kill()
        with contextlib.suppress(*ENGINE_ERRORS):
            self.game.close()
        self._home.remove()


@contextlib.contextmanager
def _quiet_birth() -> Iterator[None]:
    """What is started inside never hears a Ctrl-C that is meant for all: the library crashes where a program that it
    starts ends before it answers. Other threads take the signal meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def variable(name: str) -> vzd.GameVariable:
    """The engine variable of that name. Errors: `ScenarioError`."""
    found = vzd.GameVariable.__members__.get(name)
    if found is None:
        raise ScenarioError(f"the engine has no variable {name!r}")
    return found


def _configure(setup: EngineSetup, buttons: Sequence[str], picture: Picture) -> Game:
    game = _load(setup)
    unknown = [name for name in buttons if name not in vzd.Button.__members__]
    if unknown:
        raise ScenarioError(f"the engine has no button {unknown[0]!r}")
    game.set_available_buttons([vzd.Button.__members__[name] for name in buttons])
    game.set_screen_resolution(vzd.ScreenResolution.RES_320X240)
    game.set_screen_format(_SCREENS[picture])
    game.set_window_visible(False)
    game.set_sound_enabled(False)
    game.set_render_hud(False)
    game.set_render_crosshair(True)
    game.set_render_screen_flashes(False)
    game.set_labels_buffer_enabled(True)
    game.set_depth_buffer_enabled(setup.needs_depth)
    game.set_mode(vzd.Mode.PLAYER)
    game.set_available_game_variables([variable(name) for name in (*TRACKED, *setup.variables)])
    game.set_seed(0)
    if setup.timeout_tics is not None:
        game.set_episode_timeout(setup.timeout_tics)
    return game


def _load(setup: EngineSetup) -> Game:
    """A game with the cfg loaded and its files absolute and checked (the engine runs in another folder)."""
    game = load_cfg(cfg_path(setup.cfg))
    if wad := setup.wad or game.get_doom_scenario_path():
        game.set_doom_scenario_path(str(check_wad(here(wad))))
    game.set_doom_game_path(str(check_wad(here(setup.game or game.get_doom_game_path() or str(_DEFAULT_GAME)))))
    return game


def provenance(scenario: Scenario) -> Provenance | None:
    """Names and hashes of the scenario's files; None for a scenario with an environment of its own.

    Errors: `ScenarioError` for all that can be seen to be wrong before an engine is started.
    """
    if scenario.engine is None:
        return None
    cfg = cfg_path(scenario.engine.cfg)
    game = _configure(scenario.engine, scenario.buttons, "indexed")
    wad, base = game.get_doom_scenario_path(), Path(game.get_doom_game_path())
    return Provenance(
        engine_version=ENGINE_VERSION,
        cfg=cfg.name,
        cfg_sha256=_sha256(cfg),
        wad=Path(wad).name if wad else None,
        wad_sha256=_sha256(Path(wad)) if wad else None,
        game=base.name,
        game_sha256=_sha256(base),
    )


def _sha256(path: Path) -> str:
    return _file_sha256(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _file_sha256(path: Path, mtime_ns: int) -> str:  # noqa: ARG001
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
