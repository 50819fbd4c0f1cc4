"""What a running engine shows, read into records: counters, snapshots, why an episode ended."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rollouts.engine import HEIGHT, WIDTH, Game, variable
from rollouts.events import Counters
from rollouts.perception import DepthReader, Sorter, see_things
from rollouts.records import EndReason, Frame, Snapshot
from rollouts.scenarios import EngineSetup


class View:
    """Reads one scenario's engine. With `frames` snapshots carry the picture, under `palette` where it is indexed."""

    def __init__(self, setup: EngineSetup, frames: bool, palette: NDArray[np.uint8] | None) -> None:
        self._frames = frames
        self._palette = palette
        self._sorter = Sorter(setup.extra_monsters)
        self._depth = DepthReader(WIDTH, HEIGHT) if setup.needs_depth else None
        self._health, self._ammo, self._kills = (
            variable(name) if name in setup.game_variables else None
            for name in ("HEALTH", "SELECTED_WEAPON_AMMO", "KILLCOUNT")
        )
        self._damage, self._items, self._weapon = map(variable, ("DAMAGE_TAKEN", "ITEMCOUNT", "SELECTED_WEAPON"))
        self._extra = tuple((name, variable(name)) for name in setup.variables)

    def counters(self, game: Game) -> Counters:
        """The counters now; they can be read also when the episode is over."""
        read = game.get_game_variable
        return Counters(
            health=int(read(self._health)) if self._health is not None else None,
            ammo=max(0, int(read(self._ammo))) if self._ammo is not None else None,
            kills=int(read(self._kills)) if self._kills is not None else None,
            damage=int(read(self._damage)),
            items=int(read(self._items)),
            weapon=int(read(self._weapon)),
        )

    def variables(self, game: Game) -> dict[str, float]:
        """The further variables asked for."""
        return {name: float(game.get_game_variable(each)) for name, each in self._extra}

    def snapshot(self, game: Game, counters: Counters) -> Snapshot | None:
        """What there is to see, with the counters of the same moment; None when the engine shows nothing."""
        state = game.get_state()
        if state is None:
            return None
        depth = state.depth_buffer
        return Snapshot(
            game_tic=state.tic,
            health=counters.health,
            ammo=counters.ammo,
            kills=counters.kills,
            things=see_things(state.labels or (), self._sorter, WIDTH, HEIGHT),
            depth=self._depth.read(depth) if self._depth and depth is not None else None,
            frame=self._frame(state.screen_buffer) if self._frames else None,
        )

    def _frame(self, pixels: NDArray[np.uint8]) -> Frame:
        pixels.setflags(write=False)
        return Frame(pixels, self._palette)


def blind_snapshot(game: Game, counters: Counters) -> Snapshot:
    """The counters alone, for an episode that is over before anything can be seen."""
    return Snapshot(game.get_episode_time(), counters.health, counters.ammo, counters.kills)


def end_reason(game: Game) -> EndReason:
    """Why a finished episode ended; neither dead nor out of time means that the goal was reached."""
    if game.is_player_dead():
        return "death"
    return "timeout" if game.is_episode_timeout_reached() else "goal"
