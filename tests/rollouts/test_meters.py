"""What is counted, under which tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from rollouts import meters
from rollouts.calls.limits import LimiterStatus, Spending
from rollouts.meters import METERS, RUN, Meter
from rollouts.pools.pool import Task
from rollouts.records import Answer, Decision, EpisodeFailure, EpisodeKey, SideCounts, Snapshot, Transition
from tests.pool_doubles import make_units, report_of

NOW = datetime.now(UTC)
KEY = EpisodeKey("s", "rule", "p", 3, 0)


@dataclass
class KeptMeters:
    """Keeps all numbers, and checks that each meter gets its own tags and the kind of number that it is for."""

    total: Counter[tuple[str, ...]] = field(default_factory=Counter)
    values: dict[str, list[float]] = field(default_factory=dict)

    def count(self, meter: Meter, amount: float, **tags: str) -> None:
        assert meter.kind == "counter"
        assert amount >= 0
        self.total[self._key(meter, tags)] += amount  # type: ignore[assignment]

    def put(self, meter: Meter, value: float, **tags: str) -> None:
        assert meter.kind == "gauge"
        self.total[self._key(meter, tags)] = value  # type: ignore[assignment]

    def observe(self, meter: Meter, values: Iterable[float], **tags: str) -> None:
        assert meter.kind == "histogram"
        self._key(meter, tags)
        self.values.setdefault(meter.name, []).extend(values)

    def of(self, meter: Meter, *tags: str) -> float:
        return self.total[meter.name, *tags]

    def _key(self, meter: Meter, tags: dict[str, str]) -> tuple[str, ...]:
        assert tuple(sorted(tags)) == tuple(sorted(meter.tags))
        return (meter.name, *(tags[name] for name in meter.tags))


def decision(**changes: Any) -> Decision:
    made = Decision(
        tick=0,
        state="",
        snapshot=Snapshot(0),
        teacher_action=None,
        answer=Answer("a", latency_ms=0.0),
        effective_action="a",
        acted_by="policy",
        transition=Transition(0.0, None, False),
        terminated=False,
        truncated=False,
        decided_at=NOW,
    )
    return replace(made, **changes)


def test_decisions_with_the_latency_that_the_policy_told_zero_being_one() -> None:
    kept = KeptMeters()
    untimed = decision(answer=Answer(None), schema_error="empty")
    meters.count_decisions(kept, KEY, [decision(), untimed, decision(answer=Answer("a", latency_ms=250.0))])
    meters.count_decisions(kept, KEY, [])
    assert (kept.of(meters.DECISIONS, "s", "p"), kept.of(meters.OUT_OF_SCHEMA, "s", "p")) == (3, 1)
    assert kept.values[meters.LATENCY.name] == [0.0, 250.0]


def test_a_failed_episode_by_whose_fault_and_engines_by_scenario() -> None:
    kept = KeptMeters()
    meters.count_episode(kept, EpisodeFailure(KEY, "engine", "lost at tick 7", NOW, NOW))
    unit = make_units(1)[0]
    meters.count_unit(kept, unit, replace(report_of(Task(unit, "e1-0")), engine_restarts=2))
    assert kept.of(meters.EPISODES, "s", "p", "failed") == kept.of(meters.FAILURES, "s", "p", "engine") == 1
    assert kept.of(meters.ENGINE_RESTARTS, "scenario0") == 2


def test_what_a_graded_unit_holds() -> None:
    kept = KeptMeters()
    counts = SideCounts(
        graded=5,
        ungraded=(("refused", 2), ("timeout", 1)),
        entries=9,
        degraded=(("cut_off", 4),),
        requests=11,
        tokens_in=700,
        tokens_out=80,
        cost_usd=0.25,
    )
    meters.count_side(kept, "grades", counts)
    assert (kept.of(meters.GRADES, "graded"), kept.of(meters.GRADES, "ungraded")) == (5, 3)
    assert (kept.of(meters.ENTRIES, "scored"), kept.of(meters.ENTRIES, "degraded")) == (5, 4)
    assert (kept.of(meters.TOKENS, "grades", "in"), kept.of(meters.TOKENS, "grades", "out")) == (700, 80)
    assert (kept.of(meters.REQUESTS, "grades"), kept.of(meters.COST, "grades")) == (11, 0.25)


def test_how_a_pool_and_its_calls_stand() -> None:
    kept = KeptMeters()
    meters.put_workers(kept, "rollouts", live=4, playing=3, waiting=20)
    meters.put_calls(kept, LimiterStatus(7, 2, 9, Spending(), (), None))
    assert (kept.of(meters.WORKERS, "rollouts", "busy"), kept.of(meters.WORKERS, "rollouts", "idle")) == (3, 1)
    assert kept.of(meters.QUEUE, "rollouts") == 20
    assert (kept.of(meters.IN_FLIGHT), kept.of(meters.WAITING)) == (7, 2)


def test_names_are_once_each_and_tags_stay_few() -> None:
    assert len({meter.name for meter in METERS}) == len(METERS)
    few = {"scenario", "policy", "pool", "status", "stage", "state", "direction"}
    assert {tag for meter in METERS for tag in meter.tags} <= few
    assert RUN not in few
    assert all(meter.bounds == tuple(sorted(meter.bounds)) for meter in METERS)
    assert {meter.name for meter in METERS if meter.bounds} == {m.name for m in METERS if m.kind == "histogram"}
    made = [value for value in vars(meters).values() if isinstance(value, Meter)]
    assert set(made) == set(METERS)
