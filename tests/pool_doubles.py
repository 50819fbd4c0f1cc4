"""Units, reports and a pool without workers, for the tests of the scheduler, the driver and the pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rollouts.pool import Event, Finished, Started, Task
from rollouts.records import PlannedEpisode, ShardFile, Unit, UnitReport
from rollouts.trouble import episode_ids


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
        self.happens(slot, Started(slot, f"worker {slot}"))

    def send(self, slot: int, task: Task) -> None:
        assert self.state[slot] == "ready"
        self.state[slot] = "busy"
        self.sent.append(task)
        self.happens(slot, self.outcome(slot, task))

    def outcome(self, slot: int, task: Task) -> Event | None:
        """What becomes of a task; None: nothing, ever."""
        return Finished(slot, report_of(task))

    def happens(self, slot: int, event: Event | None) -> None:
        if event is not None:
            self._events.append(event)

    def kill(self, slot: int) -> None:
        assert self.state[slot] != "empty"
        self.state[slot] = "empty"
        self._events = [e for e in self._events if getattr(e, "slot", None) != slot]

    def wait(self, timeout_s: float) -> Sequence[Event]:
        events, self._events = self._events, []
        for event in events:
            slot = getattr(event, "slot", None)
            if slot is not None:
                self.state[slot] = "empty" if type(event).__name__ in ("Lost", "StartFailed") else "ready"
        return events

    def close(self) -> None:
        self.closed = True
