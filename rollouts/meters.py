"""What can be measured while a run goes on, under which names, and who counts it. Knows nothing of Ray or Prometheus.

    meters.count(DECISIONS, 32, scenario="defend_the_center", policy="oracle")

A tag that grows with the episodes (a seed, an episode's id) is never one: each value is a time series for ever. `run`
is a tag of every meter, and whoever makes the `Meters` knows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from rollouts.calls.limits import LimiterStatus
from rollouts.records import Decision, Episode, EpisodeFailure, EpisodeKey, SideCounts, Unit, UnitReport

Kind = Literal["counter", "gauge", "histogram"]
RUN = "run"


@dataclass(frozen=True, slots=True)
class Meter:
    """One number that is watched. `tags` beside `RUN`; `bounds` are a histogram's, in the unit of its name."""

    name: str
    kind: Kind
    text: str
    tags: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Meters(Protocol):
    """Takes numbers, fast, from one thread at a time. Each of the meter's tags is to be given."""

    def count(self, meter: Meter, amount: float, **tags: str) -> None:
        """Add to a counter; 0 is let pass."""
        ...

    def put(self, meter: Meter, value: float, **tags: str) -> None:
        """How much it is now."""
        ...

    def observe(self, meter: Meter, values: Iterable[float], **tags: str) -> None:
        """Put values into a histogram."""
        ...


class NoMeters:
    """Nobody watches."""

    def count(self, meter: Meter, amount: float, **tags: str) -> None: ...
    def put(self, meter: Meter, value: float, **tags: str) -> None: ...
    def observe(self, meter: Meter, values: Iterable[float], **tags: str) -> None: ...


NO_METERS = NoMeters()

_PLAYED = ("scenario", "policy")
DECISIONS = Meter("doom_rollouts_decisions", "counter", "Decisions made, also of tries that are repeated", _PLAYED)
OUT_OF_SCHEMA = Meter(
    "doom_rollouts_out_of_schema", "counter", "Decisions whose answer was none of the options", _PLAYED
)
LATENCY = Meter(
    "doom_rollouts_decision_latency_ms",
    "histogram",
    "What policies say that a decision took",
    _PLAYED,
    (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 200.0, 300.0, 500.0, 1_000.0, 3_000.0, 10_000.0, 60_000.0),
)
EPISODES = Meter("doom_rollouts_episodes", "counter", "Episodes played: completed, failed", (*_PLAYED, "status"))
FAILURES = Meter("doom_rollouts_failures", "counter", "Episodes that failed, by whose fault", (*_PLAYED, "stage"))
ENGINE_RESTARTS = Meter(
    "doom_rollouts_engine_restarts", "counter", "Engines that had to be started again", ("scenario",)
)
COMMITTED = Meter("doom_rollouts_committed_units", "counter", "Units that are part of the run now", ("pool",))
REMARKS = Meter("doom_rollouts_remarks", "counter", "What people were told: workers lost, tries that failed", ("pool",))
GRADES = Meter("doom_rollouts_grades", "counter", "Grades committed: graded, ungraded", ("status",))
ENTRIES = Meter("doom_rollouts_summary_entries", "counter", "Summary entries committed: scored, degraded", ("status",))
REQUESTS = Meter("doom_rollouts_model_requests", "counter", "HTTP requests to models, of committed units", ("pool",))
TOKENS = Meter("doom_rollouts_model_tokens", "counter", "Tokens: in, out", ("pool", "direction"))
COST = Meter("doom_rollouts_model_cost_usd", "counter", "US dollars, of calls with a known price", ("pool",))
IN_FLIGHT = Meter("doom_rollouts_requests_in_flight", "gauge", "Requests to models under way")
WAITING = Meter("doom_rollouts_requests_waiting", "gauge", "Requests to models that wait for their turn")
QUEUE = Meter("doom_rollouts_units_waiting", "gauge", "Units that wait for a worker", ("pool",))
WORKERS = Meter("doom_rollouts_workers", "gauge", "Workers: busy, idle", ("pool", "state"))

METERS: tuple[Meter, ...] = (
    *(DECISIONS, OUT_OF_SCHEMA, LATENCY, EPISODES, FAILURES, ENGINE_RESTARTS),
    *(COMMITTED, REMARKS, GRADES, ENTRIES, REQUESTS, TOKENS, COST, IN_FLIGHT, WAITING, QUEUE, WORKERS),
)


def count_decisions(meters: Meters, key: EpisodeKey, decisions: Collection[Decision]) -> None:
    """Some decisions of one episode at a time: between any two of them the engine empties the processor's caches."""
    tags = {"scenario": key.scenario, "policy": key.policy}
    meters.count(DECISIONS, len(decisions), **tags)
    meters.count(OUT_OF_SCHEMA, sum(decision.schema_error is not None for decision in decisions), **tags)
    told = (decision.answer.latency_ms for decision in decisions)
    meters.observe(LATENCY, (ms for ms in told if ms is not None), **tags)


def count_episode(meters: Meters, outcome: Episode | EpisodeFailure) -> None:
    tags = {"scenario": outcome.key.scenario, "policy": outcome.key.policy}
    failed = isinstance(outcome, EpisodeFailure)
    meters.count(EPISODES, 1, status="failed" if failed else "completed", **tags)
    if isinstance(outcome, EpisodeFailure):
        meters.count(FAILURES, 1, stage=outcome.stage, **tags)


def count_unit(meters: Meters, unit: Unit, report: UnitReport) -> None:
    """What is known once a unit is staged."""
    meters.count(ENGINE_RESTARTS, report.engine_restarts, scenario=unit.scenario)


def count_side(meters: Meters, pool: str, counts: SideCounts) -> None:
    """What a committed unit holds of grades, summaries and calls; `pool` made them."""
    meters.count(GRADES, counts.graded, status="graded")
    meters.count(GRADES, sum(n for _, n in counts.ungraded), status="ungraded")
    degraded = sum(n for _, n in counts.degraded)
    meters.count(ENTRIES, counts.entries - degraded, status="scored")
    meters.count(ENTRIES, degraded, status="degraded")
    meters.count(REQUESTS, counts.requests, pool=pool)
    meters.count(TOKENS, counts.tokens_in, pool=pool, direction="in")
    meters.count(TOKENS, counts.tokens_out, pool=pool, direction="out")
    meters.count(COST, counts.cost_usd, pool=pool)


def put_workers(meters: Meters, pool: str, live: int, playing: int, waiting: int) -> None:
    """Of `live` workers so many are `playing`; so many units are `waiting`."""
    meters.put(WORKERS, playing, pool=pool, state="busy")
    meters.put(WORKERS, live - playing, pool=pool, state="idle")
    meters.put(QUEUE, waiting, pool=pool)


def put_calls(meters: Meters, calls: LimiterStatus | None) -> None:
    meters.put(IN_FLIGHT, 0 if calls is None else calls.in_flight)
    meters.put(WAITING, 0 if calls is None else calls.waiting)
