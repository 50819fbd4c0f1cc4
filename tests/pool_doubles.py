"""Units, reports and a pool without workers, for the tests of the scheduler, the driver and the pools."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rollouts.pools.pool import Event, Finished, Lost, Noted, Started, StartFailed, Task
from rollouts.pools.trouble import episode_ids
from rollouts.records import PlannedEpisode, ShardFile, Unit, UnitReport


def make_units(count: int, episodes: int = 1, groups: int = 1) -> list[Unit]:
    """`count` units of `episodes` each; the groups take turns in blocks, as in a plan."""
    block = -(-count // groups)
    return [
        Unit(n, f"scenario{n // block}", "rule", "oracle", tuple(PlannedEpisode(n, k) for k in range(episodes)))
        for n in range(count)
    ]


def report_of(task: Task, failures: Mapping[str, tuple[str, str]] | None = None) -> UnitReport:
    """What an honest worker reports: skipped episodes failed, those in `failures` too, the rest completed."""
    unit = task.unit
    skipped = {name: ("worker", cause) for name, cause in task.skip.items()}
    outcomes = {**(failures or {}), **skipped}
    return UnitReport(
        unit=unit.number,
        attempt=task.attempt,
        steps=None,
        episodes=ShardFile(f"{unit.part}.parquet", len(unit.episodes), 1, "0" * 64),
        n_decisions=10,
        n_out_of_schema=0,
        failures=tuple(outcomes.get(name) for name in episode_ids(unit)),
    )


class InstantPool:
    """Finishes each task at the next `wait`, and checks that it is used as a pool may be used."""

    def __init__(self, slots: int = 1) -> None:
        self.slots = slots
        self.state = ["empty"] * slots
        self.sent: list[Task] = []
        self.closed = False
        self._events: list[Event] = []

    def start(self, slot: int) -> None:
        assert self.state[slot] == "empty"
        self.state[slot] = "starting"
        self._events.append(Started(slot, f"worker {slot}"))

    def send(self, slot: int, task: Task) -> None:
        assert self.state[slot] == "ready"
        self.state[slot] = "busy"
        self.sent.append(task)
        self._events.append(self.outcome(slot, task))

    def outcome(self, slot: int, task: Task) -> Event:
        """What becomes of a task."""
        return Finished(slot, report_of(task))

    def kill(self, slot: int) -> None:
        assert self.state[slot] != "empty"
        self.state[slot] = "empty"
        self._events = [e for e in self._events if isinstance(e, Noted) or e.slot != slot]

    def wait(self, timeout_s: float) -> Sequence[Event]:
        if not self._events:
            time.sleep(timeout_s)
        events, self._events = self._events, []
        for event in events:
            if not isinstance(event, Noted):
                self.state[event.slot] = "empty" if isinstance(event, Lost | StartFailed) else "ready"
        return events

    def close(self) -> None:
        self.closed = True


class FakeCommits:
    """Keeps what was promoted, checks that names are its own and that nothing is promoted twice."""

    def __init__(self) -> None:
        self.promoted: list[int] = []
        self.beats = 0
        self._given: set[str] = set()

    def next_attempt(self) -> str:
        self._given.add(name := f"e1-{len(self._given)}")
        return name

    def promote(self, report: UnitReport) -> bool:
        assert report.attempt in self._given
        assert report.unit not in self.promoted
        self.promoted.append(report.unit)
        return True

    def heartbeat(self) -> None:
        self.beats += 1
