"""All slots of a scheduler, by what they do: what it asks at every event costs the same for 4 slots and for 1,000.

Moments to look again are kept as a bound that may be too early but never too late: a slot's own moment only moves on
(with each decision), so all slots are looked at again only when the bound is reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import get_args

from rollouts.pools.backlog import Group
from rollouts.pools.patience import Limits
from rollouts.pools.slots import NEVER, WATCHED, Slot, State


class Roster:
    """`slots` of them, numbered from 0, all empty at first."""

    def __init__(self, slots: int, limits: Limits) -> None:
        self._limits = limits
        self._in: dict[State, dict[int, Slot]] = {state: {} for state in get_args(State)}
        self._groups: Counter[Group] = Counter()
        self._alarm = self._quiet = NEVER
        self._slots: list[Slot] = []
        self.grow(slots)

    def grow(self, slots: int) -> None:
        """Let there be so many, if there are fewer."""
        for number in range(len(self._slots), slots):
            slot = self._in["empty"][number] = Slot(number, self._limits, self)
            self._slots.append(slot)

    def __getitem__(self, number: int) -> Slot:
        return self._slots[number]

    def count(self, *states: State) -> int:
        """Slots in one of the states."""
        return sum(len(self._in[state]) for state in states)

    @property
    def live(self) -> int:
        """Workers that are ready or busy."""
        return self.count("ready", "busy")

    @property
    def groups(self) -> Mapping[Group, int]:
        """Workers that are set up for each group."""
        return self._groups

    def rested(self, state: State, now: float) -> list[Slot]:
        """Slots in that state that need no more rest, in their order."""
        found = self._in[state]
        return [found[number] for number in sorted(found) if found[number].rests_until <= now]

    def last(self, state: State, count: int) -> list[Slot]:
        """The `count` slots in that state that come last in their order."""
        return [self._in[state][number] for number in sorted(self._in[state], reverse=True)[: max(0, count)]]

    def alarm(self, now: float) -> float:
        """No watchdog has to look before this moment."""
        if self._alarm <= now:
            self._alarm = min((slot.alarm for slot in self._watched()), default=NEVER)
        return self._alarm

    def next_rested(self, now: float) -> float:
        """When the next slot without a task has rested; `NEVER` where none rests."""
        resting = (slot.rests_until for state in ("empty", "ready") for slot in self._in[state].values())
        return min((until for until in resting if until > now), default=NEVER)

    def overdue(self, now: float) -> list[Slot]:
        """Slots whose alarm is due, in their order."""
        if now < self.alarm(now):
            return []
        return sorted((slot for slot in self._watched() if slot.alarm <= now), key=lambda slot: slot.number)

    def grown_quiet(self, now: float) -> list[Slot]:
        """Slots without a decision for `quiet_s`, each silence once, in their order."""
        if now < self._quiet:
            return []
        busy = self._in["busy"].values()
        found = [slot for slot in busy if slot.grew_quiet(now)]
        self._quiet = min((slot.quiet_at for slot in busy), default=NEVER)
        return sorted(found, key=lambda slot: slot.number)

    def _watched(self) -> list[Slot]:
        return [slot for state in WATCHED for slot in self._in[state].values()]

    # What slots tell

    def moved(self, slot: Slot, before: State) -> None:
        """Its state has changed."""
        del self._in[before][slot.number]
        self._in[slot.state][slot.number] = slot

    def regrouped(self, slot: Slot, before: Group | None) -> None:
        """Its group has changed."""
        if before is not None:
            self._groups[before] -= 1
        if slot.group is not None:
            self._groups[slot.group] += 1

    def waits(self, slot: Slot) -> None:
        """It has a new alarm, and perhaps a new moment to be told quiet."""
        self._alarm = min(self._alarm, slot.alarm)
        self._quiet = min(self._quiet, slot.quiet_at)
