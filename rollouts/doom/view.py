"""What a running engine shows, read into records: counters, snapshots, why an episode ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollouts.doom.engine import HEIGHT, TRACKED, WIDTH, Game, variable
from rollouts.doom.events import Counters
from rollouts.doom.perception import DepthReader, Kinds, see_things
from rollouts.records import EndReason, Frame, Snapshot
from rollouts.scenarios.scenario import EngineSetup


@dataclass(frozen=True, slots=True)
class Sight:
    """One moment of an engine. `snapshot` is None when the engine shows nothing any more."""

    counters: Counters
    snapshot: Snapshot | None
    variables: dict[str, float]


class View:
    """Reads one scenario's engine. With `frames` snapshots carry the picture, under `palette` where it is indexed."""

    def __init__(self, setup: EngineSetup, frames: bool, palette: NDArray[np.uint8] | None) -> None:
        self._frames = frames
        self._palette = palette
        self._kinds = Kinds(setup.extra_monsters, setup.extra_items, setup.projectiles)
        self._depth = DepthReader(WIDTH, HEIGHT) if setup.needs_depth else None
        self._variables = [variable(name) for name in (*TRACKED, *setup.variables)]
        self._extra = setup.variables
        self._has = tuple(name in setup.game_variables for name in ("HEALTH", "SELECTED_WEAPON_AMMO", "KILLCOUNT"))
        self._last: tuple[list[float], Counters] | None = None

    def look(self, game: Game) -> Sight:
        """Everything there is to read now. Counters that did not change are the very object of the last look."""
        state = game.get_state()
        if state is None or state.game_variables is None:
            values = [game.get_game_variable(each) for each in self._variables]
            return Sight(self._count(values), None, self._further(values))
        values = state.game_variables.tolist()
        counters, further, depth = self._count(values), self._further(values), state.depth_buffer
        snapshot = Snapshot(
            state.tic,
            counters.health,
            counters.ammo,
            counters.kills,
            see_things(state.labels or (), self._kinds, WIDTH, HEIGHT),
            self._depth.read(depth) if self._depth and depth is not None else None,
            self._frame(state.screen_buffer) if self._frames else None,
            further,
        )
        return Sight(counters, snapshot, further)

    def _count(self, values: list[float]) -> Counters:
        tracked = values[: len(TRACKED)]
        if self._last is None or self._last[0] != tracked:
            self._last = tracked, self._counters(tracked)
        return self._last[1]

    def _counters(self, tracked: list[float]) -> Counters:
        health, ammo, kills, damage, items, weapon = map(int, tracked)
        has_health, has_ammo, has_kills = self._has
        return Counters(
            health=health if has_health else None,
            ammo=max(0, ammo) if has_ammo else None,
            kills=kills if has_kills else None,
            damage=damage,
            items=items,
            weapon=weapon,
        )

    def _further(self, values: list[float]) -> dict[str, float]:
        return dict(zip(self._extra, values[len(TRACKED) :], strict=True)) if self._extra else {}

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
