"""Real time: thinking costs game time. Knows environments, not what is played in them.

In normal mode the game stands still while the policy thinks. In real time a decision of latency L goes like this:

1. The policy is shown a snapshot: that of the row (state, frame, counters, `game_tic`, teacher action).
2. It thinks for L: what is set (`latency_ms`), or else what its answer says (`latency_ms` of the row), or else what the
   loop's own clock says. The rule and the random policy say 0; a turn for which the policy was not asked takes 0.
3. Meanwhile the game goes on for L x 35 tics, whole ones; the rest of a tic is kept for the episode's next decision.
   `hold`: the last action that was sent stays pressed (none before the first); `idle`: nothing is pressed.
4. The answer is sent into the world as it has become, and held for the decision's tics as ever.

A row's reward and events are those of 3 and 4 together, its counters `_after` those at the end; `waited_tics` says how
many tics passed in 3. Where the episode ends in 3 the answer is late: the row has it as `model_action`, and nothing was
sent (`effective_action` and `acted_by` are null). The step cap counts decisions, also a late one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from rollouts.records import Snapshot, Transition
from rollouts.scenarios.scenario import TICS_PER_S, Environment

Meanwhile = Literal["hold", "idle"]
MEANWHILE: tuple[str, ...] = get_args(Meanwhile)
_US_PER_MS, _US_PER_S = 1_000, 1_000_000


@dataclass(frozen=True, slots=True)
class RealTime:
    """What the game does while the policy thinks, and for how long it thinks (None: as long as it takes)."""

    meanwhile: Meanwhile
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """What came of a decision: `transition` leads from what the policy saw to the end of its action.

    `seen` is the last snapshot on the way, None where there was none; `waited_tics` is None in normal mode; `late`
    says that the episode ended before the action could be sent.
    """

    transition: Transition
    seen: Snapshot | None
    waited_tics: int | None = None
    late: bool = False


class Game:
    """One episode of an environment, as the loop plays it: in normal mode, or in real time."""

    def __init__(self, environment: Environment, tics: int, realtime: RealTime | None) -> None:
        self._environment = environment
        self._tics = tics
        self._realtime = realtime
        self._rest = 0
        self._pressed: str | None = None

    def act(self, action: str, thought_ms: float) -> Course:
        """Let the time pass that the thought took, and send the action. Errors: those of `Environment.step`."""
        if self._realtime is None:
            acted = self._environment.step(action, self._tics)
            return Course(acted, acted.snapshot)
        tics = self._tics_of(self._realtime, thought_ms)
        if tics == 0:
            return self._send(action, None, 0)
        waited = self._environment.step(self._pressed, tics)
        passed = tics if waited.tics is None else waited.tics
        if self._environment.finished:
            return Course(waited, waited.snapshot, passed, late=True)
        return self._send(action, waited, passed)

    def _send(self, action: str, waited: Transition | None, waited_tics: int) -> Course:
        acted = self._environment.step(action, self._tics)
        if self._realtime is not None and self._realtime.meanwhile == "hold":
            self._pressed = action
        if waited is None:
            return Course(acted, acted.snapshot, waited_tics)
        return Course(_joined(waited, acted), acted.snapshot or waited.snapshot, waited_tics)

    def _tics_of(self, realtime: RealTime, thought_ms: float) -> int:
        """Whole tics; in millionths of a tic, and thus exact to a microsecond of latency."""
        latency_ms = thought_ms if realtime.latency_ms is None else realtime.latency_ms
        tics, self._rest = divmod(self._rest + round(latency_ms * _US_PER_MS) * TICS_PER_S, _US_PER_S)
        return tics


def _joined(waited: Transition, acted: Transition) -> Transition:
    """One transition for both; an event that happened in both is told once."""
    events = tuple(dict.fromkeys((*waited.events, *acted.events)))
    return replace(acted, reward=waited.reward + acted.reward, events=events)
