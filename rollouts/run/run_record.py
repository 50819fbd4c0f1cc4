"""What `run.json` says: everything about a run that is known before its first episode, as plain JSON values.

Evidence is made from this record and the committed shards alone, so it can be made again, or checked, on a machine
that has neither the engine nor the scenario's code.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rollouts.config import RunConfig
from rollouts.identity import BENCHMARK, RunFacts, digest, identity
from rollouts.provenance import package_versions, source_revision
from rollouts.scenarios.scenario import Scenario

RECORD_VERSION = 1
OF_THE_FIRST_START = ("started_at", "source", "versions")


def make_run_record(
    config: RunConfig, facts: RunFacts, run_id: str, first: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The record of a run that starts now. `first` is that of its first start when it grows: when that was, and by
    which code, stays (each episode's row has its own versions)."""
    of = identity(config, facts)
    record = {
        "record_version": RECORD_VERSION,
        "benchmark": BENCHMARK,
        "run_id": run_id,
        "episodic": True,
        "started_at": datetime.now(UTC).isoformat(),
        "identity": of,
        "identity_sha256": digest(of),
        "configuration": config.as_dict(),
        "source": dataclasses.asdict(source_revision()),
        "versions": package_versions(),
        "engine": of["engine"],
        "scenarios": {s.name: _scenario(s, config, facts) for s in config.resolved()},
        "policies": {name: dataclasses.asdict(facts.descriptions[name]) for name in config.policies},
    }
    kept = {} if first is None else {key: first[key] for key in OF_THE_FIRST_START}
    return {key: plain_json(value) for key, value in (record | kept).items()}


def plain_json(value: Any) -> Any:
    """`value` in what JSON has; anything else (a path, NaN, a policy's own object) as its text."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _baselines_hold(scenario: Scenario, config: RunConfig) -> bool:
    """They were measured under the scenario's own tics and step cap, in a game that waits."""
    own = (config.tics_of(scenario), config.step_cap_of(scenario)) == (scenario.tics, scenario.step_cap)
    return own and (config.realtime is None or config.latency_ms == 0)


def _scenario(scenario: Scenario, config: RunConfig, facts: RunFacts) -> dict[str, Any]:
    return {
        "metric": {"name": scenario.metric.name, "unit": scenario.metric.unit},
        "options": list(scenario.options),
        "tics": config.tics_of(scenario),
        "step_cap": config.step_cap_of(scenario),
        "published_seeds": list(scenario.seeds),
        "has_teacher": scenario.teacher is not None,
        "baselines": None if scenario.baselines is None else dataclasses.asdict(scenario.baselines),
        "baselines_hold": _baselines_hold(scenario, config),
        "instructions": {rubric: scenario.instructions[rubric] for rubric in config.rubrics},
        "provenance": dict(facts.provenance.get(scenario.name, {})),
    }
