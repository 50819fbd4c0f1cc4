"""What makes a run the same run: the facts that its data depends on, their digest, and the default run id."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rollouts.config import RunConfig
from rollouts.errors import UsageError
from rollouts.naming import slug
from rollouts.records import PolicyDescription
from rollouts.scenarios.scenario import Scenario
from rollouts.settings import one_line

BENCHMARK = "doom"
GROWING = ("seeds", "episodes_per_seed")
_WHERE = ("base_url", "endpoint", "url")


@dataclass(frozen=True)
class RunFacts:
    """What identity needs and configuration cannot know.

    `provenance`: scenario name → hashes of its cfg and wad; `descriptions`: policy as configured → who that is;
    `batched`: what those are asked for as that many actors can share, as they answer in batches (no part of identity).
    """

    engine_version: str
    provenance: Mapping[str, Mapping[str, Any]]
    descriptions: Mapping[str, PolicyDescription]
    batched: tuple[str, ...] = ()


def identity(config: RunConfig, facts: RunFacts) -> dict[str, Any]:
    """The run's identity as plain JSON values. Where it runs, how fast and how it is graded are no part of it."""
    of = {
        "benchmark": BENCHMARK,
        "engine": {"name": "vizdoom", "version": facts.engine_version},
        "scenarios": {s.name: _scenario(s, config, facts) for s in config.resolved()},
        "seeds": {s.name: list(config.seeds_of(s)) for s in config.resolved()},
        "rubrics": list(config.rubrics),
        "policies": {name: _policy(facts.descriptions[name]) for name in config.policies},
        "episodes_per_seed": config.episodes_per_seed,
        "frames": config.frames,
        "run_seed": config.seed,
        "variables": list(config.variables),
    }
    return of if config.realtime is None else {**of, "realtime": _real_time(config)}


def _real_time(config: RunConfig) -> dict[str, Any]:
    return {"meanwhile": config.realtime, "latency_ms": "measured" if config.latency_ms is None else config.latency_ms}


def _scenario(scenario: Scenario, config: RunConfig, facts: RunFacts) -> dict[str, Any]:
    return {
        "tics": config.tics_of(scenario),
        "step_cap": config.step_cap_of(scenario),
        "metric": scenario.metric.name,
        "options": list(scenario.options),
        "buttons": {action.name: list(action.buttons) for action in scenario.actions},
        "engine": _engine(scenario),
        "rubrics_sha256": {rubric: _sha256(scenario.instructions[rubric]) for rubric in config.rubrics},
        **facts.provenance.get(scenario.name, {}),
    }


def _engine(scenario: Scenario) -> dict[str, Any] | None:
    """How the engine is set up, apart from its files, which are known by their hashes; None for other engines."""
    if scenario.engine is None:
        return None
    files = ("cfg", "wad", "game")
    setup = {name: value for name, value in dataclasses.asdict(scenario.engine).items() if name not in files}
    return _plain(setup)


def _plain(of: Mapping[str, Any]) -> dict[str, Any]:
    """As it is read back from `run.json`, with which it is compared: lists for tuples, texts for keys."""
    plain: dict[str, Any] = json.loads(json.dumps(of))
    return plain


def _policy(who: PolicyDescription) -> dict[str, Any]:
    of = {
        "name": who.name,
        "model": who.model,
        "provider": who.provider,
        "checkpoint_hash": who.checkpoint_hash,
        "settings": _plain({k: v for k, v in who.settings.items() if k not in _WHERE}),
    }
    return of if who.inner is None else {**of, "inner": _policy(who.inner)}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest(of: Mapping[str, Any]) -> str:
    """sha256 of the identity's canonical JSON (sorted keys, no spaces), in hex."""
    return _sha256(json.dumps(of, sort_keys=True, separators=(",", ":")))


def default_run_id(of: Mapping[str, Any]) -> str:
    """`<benchmark>-<scenarios>-<rubrics>-<policies>-<8 hex of the identity>`: the same command finds its own run."""
    parts = (".".join(of["scenarios"]), ".".join(of["rubrics"]), ".".join(map(slug, of["policies"])))
    return f"{slug('-'.join((of['benchmark'], *parts)))}-{digest(of)[:8]}"


def check_identity(recorded: Mapping[str, Any], wanted: Mapping[str, Any], run_id: str) -> None:
    """Raise UsageError naming every field that differs between the run on disk and the one asked for.

    More seeds, or more episodes a seed, are growth: the plan is extended. Fewer are a difference.
    """
    there, here = dict(_leaves(recorded)), dict(_leaves(wanted))
    fields = [f for f in sorted(there.keys() | here.keys()) if not _agrees(f, there.get(f), here.get(f))]
    if fields:
        shown = "; ".join(f"{f} is {_difference(there.get(f), here.get(f))}" for f in fields)
        raise UsageError(f'run "{run_id}" exists with another identity: {shown}. Give another --run-id, or --new')


def _leaves(of: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in of.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _agrees(field: str, there: Any, here: Any) -> bool:
    if there is not None and here is not None and field.partition(".")[0] in GROWING:
        return set(there) <= set(here) if isinstance(there, list) else bool(there <= here)
    return bool(there == here)


def _difference(there: Any, here: Any) -> str:
    """Both values in short; of two lists also what one of them alone has, for both may begin alike."""
    told = f"{_short(there)} there, {_short(here)} here"
    if not (isinstance(there, list) and isinstance(here, list)):
        return told
    parts = ((_without(there, here), "fewer"), (_without(here, there), "more"))
    only = ", ".join(f"{len(values):,} {word}: {_short(values)}" for values, word in parts if values)
    return f"{told} ({only})" if only else told


def _without(values: list[Any], others: list[Any]) -> list[Any]:
    known = set(map(json.dumps, others))
    return [value for value in values if json.dumps(value) not in known]


def _short(value: Any) -> str:
    return "absent" if value is None else one_line(_range(value) or json.dumps(value), 60)


def _range(value: Any) -> str | None:
    """Seeds as `--seeds` writes them, `0:44`, where they follow one another; None for anything else."""
    if not isinstance(value, list) or len(value) < 2 or not all(type(item) is int for item in value):
        return None
    return f"{value[0]}:{value[-1] + 1}" if value == list(range(value[0], value[-1] + 1)) else None
