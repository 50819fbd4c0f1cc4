"""The engine's cfg files: stock ones and users', loaded, and what they name."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import vizdoom as vzd

from rollouts.doom.game_files import here
from rollouts.errors import ScenarioError
from rollouts.scenarios.scenario import GameFile

PACKAGE = Path(vzd.__file__).parent
STOCK_CFGS: tuple[str, ...] = tuple(sorted(path.name for path in Path(vzd.scenarios_path).glob("*.cfg")))


def cfg_path(cfg: str | GameFile) -> Path:
    """What was read elsewhere, else the stock cfg of that name, else the file.

    Errors: `ScenarioError` where there is none of them.
    """
    if isinstance(cfg, GameFile):
        return here(cfg)
    stock = Path(vzd.scenarios_path) / cfg
    path = stock if stock.is_file() else Path(cfg).absolute()
    if not path.is_file():
        raise ScenarioError(f"no cfg {cfg!r}: neither a stock one in {vzd.scenarios_path} nor a file")
    return path


def load_cfg(path: Path) -> vzd.DoomGame:
    """A game with that cfg. Errors: `ScenarioError`, also for a line that the engine would leave out."""
    game = vzd.DoomGame()
    with _overheard() as heard:
        try:
            understood = game.load_config(str(path))
        except (vzd.FileDoesNotExistException, vzd.ViZDoomErrorException) as error:
            raise ScenarioError(f"cfg {path} cannot be loaded: {error}") from error
    if not understood:
        raise ScenarioError(f"cfg {path} is not understood: {heard.first_complaint()}")
    return game


def wads_of(cfg: Path) -> tuple[Path | None, Path | None]:
    """The map's wad and the base game that a cfg names; None for what it does not name or the package has itself.

    Errors: `ScenarioError` where it cannot be loaded.
    """
    game = load_cfg(cfg)
    wad, base = (Path(name) if name else None for name in (game.get_doom_scenario_path(), game.get_doom_game_path()))
    return wad if _is_elsewhere(wad) else None, base if _is_elsewhere(base) else None


def _is_elsewhere(path: Path | None) -> bool:
    return path is not None and not path.absolute().is_relative_to(PACKAGE)


@dataclass
class _Heard:
    text: str = ""

    def first_complaint(self) -> str:
        """Without the file's name, which the library puts before it."""
        return next((line.rpartition('". ')[2] for line in self.text.splitlines()), "it has a line in error")


@contextlib.contextmanager
def _overheard() -> Iterator[_Heard]:
    """What the library writes to stderr inside: it has no other way to say which line it leaves out."""
    heard, before = _Heard(), os.dup(2)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield heard
            finally:
                os.dup2(before, 2)
                file.seek(0)
                heard.text = file.read().decode(errors="replace")
    finally:
        os.close(before)
