"""What happens to a unit whose workers die: whom to blame, and when to give up. Pure bookkeeping.

After the second death of a unit its episodes are tried one a task. What such a trial stages is thrown away: it only
tells which episode kills. Then the unit is played again whole without the blamed ones, so that it is committed as
the one shard that an undisturbed run leaves.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from rollouts.pools.patience import DeathCaps
from rollouts.records import PlannedEpisode, Unit

_VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{12,}|\d+")


def episode_ids(unit: Unit) -> tuple[str, ...]:
    """In the unit's order."""
    keys = unit.keys()
    return tuple(key.episode_id for key in keys)


class Trouble:
    """One unit's deaths. `todo` is what to play next; `blamed` maps episode ids to causes."""

    def __init__(self, unit: Unit, caps: DeathCaps) -> None:
        self._unit = unit
        self._caps = caps
        self._deaths = 0
        self._trials: deque[PlannedEpisode] | None = None
        self._tried_alone = len(unit.episodes) == 1
        self._blamed: dict[str, str] = {}
        self.hopeless = False

    @property
    def blamed(self) -> Mapping[str, str]:
        return dict(self._blamed)

    @property
    def on_trial(self) -> bool:
        """Whether `todo` is one episode whose outcome is only looked at."""
        return bool(self._trials)

    @property
    def alone(self) -> bool:
        """Whether `todo` needs a process of its own: from when on one of its episodes may be blamed."""
        if len(self._unit.episodes) == 1:
            return self._deaths >= self._caps.together
        return self._tried_alone

    @property
    def todo(self) -> Unit:
        return replace(self._unit, episodes=(self._trials[0],)) if self._trials else self._unit

    def survived(self) -> None:
        """The trial went well: the next episode's turn, or the whole unit's after the last."""
        assert self._trials, "only a trial can be survived: a whole unit ends"
        self._trials.popleft()
        self._deaths = 0

    def died(self, cause: str) -> tuple[str, ...]:
        """Charge one death; the ids of the episodes that are blamed for it now (`hopeless` once none is left)."""
        self._deaths += 1
        if self._deaths < self._patience():
            return ()
        self._deaths = 0
        if self._trials:
            return self._blame((self._trials.popleft(),), cause)
        suspects = tuple(e for e, key in self._named() if key not in self._blamed)
        if not suspects:
            self.hopeless = True
        elif not self._tried_alone:
            self._tried_alone = True
            self._trials = deque(suspects)
            return ()
        return self._blame(suspects, cause)

    def _patience(self) -> int:
        if self._trials:
            return self._caps.alone
        alone_anyway = len(self._unit.episodes) == 1
        return self._caps.together + (self._caps.alone if alone_anyway else 0)

    def _blame(self, episodes: tuple[PlannedEpisode, ...], cause: str) -> tuple[str, ...]:
        ids = tuple(key for e, key in self._named() if e in episodes)
        self._blamed.update(dict.fromkeys(ids, cause))
        return ids

    def _named(self) -> list[tuple[PlannedEpisode, str]]:
        return list(zip(self._unit.episodes, episode_ids(self._unit), strict=True))


class Streak:
    """Counts failures in a row by one cause; causes that differ only in numbers are one. No `limit`, no end."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._kind = ""
        self._length = 0
        self.first = ""

    def broken(self) -> None:
        """Something went well."""
        self._length = 0

    def add(self, cause: str) -> bool:
        """Whether the limit is reached with this one."""
        kind = _VARYING.sub("#", cause)
        if kind != self._kind or self._length == 0:
            self._kind, self._length, self.first = kind, 0, cause
        self._length += 1
        return self._limit is not None and self._length >= self._limit
