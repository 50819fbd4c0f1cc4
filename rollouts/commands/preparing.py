"""From a checked configuration to everything that a run needs to know before it touches its folder."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any

from grading.order import GradingOrder
from grading.played_here import JudgeHere
from rollouts.commands.casting import look_at_policies
from rollouts.commands.grading_order import make_order
from rollouts.commands.policy_order import make_call_order
from rollouts.config import RunConfig
from rollouts.doom.engine import ENGINE_VERSION, provenance, variable
from rollouts.errors import ScenarioError, UsageError
from rollouts.grading_config import GradingConfig
from rollouts.identity import RunFacts, default_run_id, identity
from rollouts.plan import PlanGroup
from rollouts.policies.registry import nested
from rollouts.provenance import package_versions
from rollouts.run.run_folder import RunFolder
from rollouts.scenarios.scenario import Scenario
from rollouts.settings import flag
from rollouts.store.storage import Storage
from rollouts.worker import WorkOrder


@dataclass(frozen=True)
class Prepared:
    """A run as it is wanted. `groups` are what it plays, in order; `order` is what its workers are told; `judging` is
    what its graders are told, None where nobody grades; `again` is how a person goes on with it."""

    config: RunConfig
    facts: RunFacts
    identity: dict[str, Any]
    groups: tuple[PlanGroup, ...]
    order: WorkOrder
    folder: RunFolder
    again: str
    grading: GradingConfig
    judging: GradingOrder | None

    @property
    def run_id(self) -> str:
        return self.order.run_id


DEFAULT_GRADING = GradingConfig()


def prepare(
    config: RunConfig,
    storage: Storage,
    new: bool = False,
    grading: GradingConfig = DEFAULT_GRADING,
    may_call: bool = True,
) -> Prepared:
    """Look at scenarios and policies, and find the run's folder; `new` takes the next free name. Writes nothing.

    Errors: `UsageError`, also for a scenario or policy of the user's that contradicts itself.
    """
    _check_variables(config)
    try:
        facts = gather_facts(config, may_call)
    except ScenarioError as error:
        raise UsageError(str(error)) from error
    of = identity(config, facts)
    run_id, again = config.run_id or default_run_id(of), "give the same command again"
    if new:
        run_id = _free_name(storage, run_id)
        again = f"give the same command with --run-id {run_id} in place of --new"
    policies = {who.name: spec for spec, who in facts.descriptions.items()}
    versions = {name: version for name, version in package_versions().items() if version is not None}
    judging = make_order(grading, run_id, storage.uri, may_call)
    judge = JudgeHere(judging) if judging is not None and judged_where_played(judging) else None
    checkpoints = {
        each: who.checkpoint_hash
        for spec, who in facts.descriptions.items()
        if who.checkpoint_hash
        for each in nested(spec)
    }
    calls = make_call_order(config, grading, facts.descriptions.values(), may_call)
    order = WorkOrder(config, run_id, policies, versions, judge, checkpoints, calls=calls)
    groups, folder = _groups(config, facts), RunFolder(storage, run_id)
    return Prepared(config, facts, of, groups, order, folder, again, grading, judging)


def judged_where_played(order: GradingOrder) -> bool:
    """Whether the workers of the rollouts grade what they play: that takes no model, and no feedback yet."""
    return order.source == "heuristic"


def _check_variables(config: RunConfig) -> None:
    for name in config.variables:
        try:
            variable(name)
        except ScenarioError as error:
            raise UsageError(f'{flag("variables")} "{name}": {error}') from error


def gather_facts(config: RunConfig, may_ask: bool = True) -> RunFacts:
    """What identity needs beside the configuration: hashes of the scenarios' files, and who the policies are."""
    scenarios = config.resolved()
    cast = look_at_policies(config, scenarios, may_ask)
    return RunFacts(
        engine_version=ENGINE_VERSION,
        provenance={s.name: _files(s) for s in scenarios},
        descriptions={spec: seen.who for spec, seen in cast.items()},
        batched=tuple(dict.fromkeys(seen.batched for seen in cast.values() if seen.batched is not None)),
    )


def _files(scenario: Scenario) -> dict[str, Any]:
    found = provenance(scenario)
    files = {} if found is None else dataclasses.asdict(found)
    files.pop("engine_version", None)
    source = scenario.source
    return files if source is None else {"file": source.name, "file_sha256": source.sha256, **files}


def _groups(config: RunConfig, facts: RunFacts) -> tuple[PlanGroup, ...]:
    return tuple(
        PlanGroup(
            scenario=scenario.name,
            rubric=rubric,
            policy=facts.descriptions[spec].name,
            seeds=config.seeds_of(scenario),
            episodes_per_seed=config.episodes_per_seed,
            step_cap=config.step_cap_of(scenario),
            frames=config.frames,
            costs_a_call=facts.descriptions[spec].provider is not None,
        )
        for scenario, rubric, spec in itertools.product(config.resolved(), config.rubrics, config.policies)
    )


def _free_name(storage: Storage, run_id: str) -> str:
    names = (run_id, *(f"{run_id}-{number}" for number in range(2, 10_000)))
    return next(name for name in names if not RunFolder(storage, name).started())
