"""When patience ends: every number that decides about retries, pauses, deadlines and stops."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeathCaps:
    """`together`: deaths of a whole unit before its episodes are tried alone; `alone`: deaths before one is blamed."""

    together: int = 2
    alone: int = 2


@dataclass(frozen=True)
class Limits:
    """Times are seconds; deaths and failures are counted in a row: anything that goes well resets them.

    `slot_deaths`, `failed_starts` (it said why, or took too long) and `lost_starts` (it was gone: for some 20 s after a
    node is lost Ray still places workers there) are for one slot, `same_cause` for failed tasks of the whole run and
    `failed_episodes` for its failed episodes (None: any number). `stall_s`: no decision for so long;
    `first_decision_s`: the same where a worker first has to set up its group; `unit_s`: one task altogether;
    `quiet_s`: after so long without a decision people are told.
    `starting`: workers in the making at once (or as many as are ready, if more); `ahead`: how many are made before
    there is a unit for them. A slot rests `rest_s` after a failure, doubled with each further one up to
    `longest_rest_s`.
    """

    unit_deaths: DeathCaps = field(default_factory=DeathCaps)
    slot_deaths: int = 5
    failed_starts: int = 3
    lost_starts: int = 8
    same_cause: int = 3
    failed_episodes: int | None = 3
    start_s: float = 120.0
    first_decision_s: float = 300.0
    stall_s: float = 120.0
    unit_s: float | None = None
    quiet_s: float = 30.0
    starting: int = 4
    ahead: int = 0
    rest_s: float = 0.25
    longest_rest_s: float = 15.0

    def rest_after_s(self, failures: int) -> float:
        """Pause after so many failures in a row."""
        return min(self.rest_s * 2.0 ** min(failures - 1, 30), self.longest_rest_s)
