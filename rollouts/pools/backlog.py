"""Units that wait for a worker: those that came back first, then group by group in the plan's order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from rollouts.records import Unit

Group = tuple[str, str, str]


def group_of(unit: Unit) -> Group:
    """(scenario, rubric, policy): what a worker's environment and policy are made for."""
    return unit.scenario, unit.rubric, unit.policy


class Backlog:
    """A queue that lets a worker stay with its group, and spreads workers over the groups by what is left of them."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self._front: deque[Unit] = deque()
        self._groups: dict[Group, deque[Unit]] = {}
        self._size = 0
        for unit in units:
            self.add(unit)

    def __len__(self) -> int:
        return self._size

    def add(self, unit: Unit) -> None:
        """Put it behind all others of its group."""
        self._groups.setdefault(group_of(unit), deque()).append(unit)
        self._size += 1

    def give_back(self, unit: Unit) -> None:
        """Put it before all others."""
        self._front.appendleft(unit)
        self._size += 1

    def take(self, group: Group | None, crowd: Mapping[Group, int]) -> Unit:
        """The next unit for a worker that is set up for `group`; `crowd` counts the workers set up for each.

        Raises IndexError when empty.
        """
        if not self._size:
            raise IndexError("no unit waits")
        self._size -= 1
        if self._front:
            return self._front.popleft()
        if group is None or group not in self._groups:
            group = max(self._groups, key=lambda g: len(self._groups[g]) / (1 + crowd.get(g, 0)))
        waiting = self._groups[group]
        unit = waiting.popleft()
        if not waiting:
            del self._groups[group]
        return unit
