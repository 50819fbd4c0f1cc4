"""What a configuration must keep to: each wrong value is one `UsageError` that names where it was given.

`source` says for each setting how it was told (`--actors`, a key of the TOML file, an environment variable).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, get_args

from rollouts.calls.endpoint import Endpoint
from rollouts.errors import UsageError
from rollouts.frames import FRAME_FORMATS
from rollouts.policies.model_settings import ANSWERS, OBSERVES
from rollouts.policies.registry import check_policy, check_teacher
from rollouts.realtime import MEANWHILE
from rollouts.rubrics import RUBRICS
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.scenario import Scenario
from rollouts.seeds import MAX_SEED, PUBLISHED
from rollouts.settings import flag, one_line, unknown

if TYPE_CHECKING:
    from rollouts.config import RunConfig

PoolName = Literal["ray", "local"]
POOLS: tuple[str, ...] = get_args(PoolName)
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_AT_LEAST_1 = (
    "episodes_per_seed",
    "tics",
    "step_cap",
    "actors",
    "episodes_per_unit",
    "recycle_after",
    "recycle_above_mb",
    "policy_max_tokens",
    "policy_server_batch",
)
_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL = re.compile(rf"(?:[A-Za-z0-9][A-Za-z0-9.-]{{0,252}}/)?{_WORD}={_WORD}", re.ASCII)
_BIGGEST = 2**31 - 1
_LONGEST_THOUGHT_MS = 3_600_000
LARGEST_PORT = 65_535


def check_repeated(config: RunConfig, source: Mapping[str, str]) -> None:
    """What must be there, and only once."""
    for name in ("scenarios", "rubrics", "policies", "variables", "rubric_files", "node_labels"):
        values: tuple[str, ...] = getattr(config, name)
        if not values and name not in ("variables", "rubric_files", "node_labels"):
            raise UsageError(f"{source[name]} is empty: give at least one")
        for value in values:
            if values.count(value) > 1:
                raise UsageError(f'{source[name]}: "{one_line(value)}" is given twice: give it once')


def check_config(config: RunConfig, source: Mapping[str, str]) -> None:
    """Everything else, once the files that it names are read."""
    _check_names(config, source)
    _check_numbers(config, source)
    _check_real_time(config, source)
    _check_places(config, source)
    _check_models(config, source)


def _check_names(config: RunConfig, source: Mapping[str, str]) -> None:
    for rubric in config.rubrics:
        if rubric not in RUBRICS:
            raise unknown("rubric", rubric, (*RUBRICS, "both"))
    for text in config.read.rubrics if config.read else ():
        if text.mode not in config.rubrics:
            played = ", ".join(config.rubrics)
            raise UsageError(f"{source['rubric_files']}: rubric {text.mode} is not played, only {played}: leave it out")
    for policy in config.policies:
        check_policy(policy)
    _check_choice(source["frames"], config.frames, FRAME_FORMATS)
    _check_choice(source["pool"], config.pool, POOLS)
    _check_scenarios(config)


def _check_choice(source: str, value: str, choices: Collection[str]) -> None:
    if value not in choices:
        raise unknown(source, value, choices)


def _check_scenarios(config: RunConfig) -> None:
    names = [scenario.name for scenario in config.resolved()]
    for given, scenario in zip(config.scenarios, config.resolved(), strict=True):
        if names.count(scenario.name) > 1:
            raise UsageError(f'two scenarios call themselves "{one_line(scenario.name)}": give each its own name')
        if given != scenario.name and scenario != SCENARIOS.get(scenario.name, scenario):
            raise UsageError(
                f'scenario "{one_line(given)}" calls itself "{scenario.name}", as one that ships does: give it a name '
                "of its own"
            )
        if not config.seeds_of(scenario):
            raise UsageError(f'scenario "{scenario.name}" has no published seeds: --seeds {PUBLISHED} cannot be used')
        for rubric in config.rubrics:
            if rubric not in scenario.instructions:
                raise _lacks(scenario, rubric, config)
        for policy in config.policies:
            check_teacher(policy, scenario)


def _lacks(scenario: Scenario, rubric: str, config: RunConfig) -> UsageError:
    """A scenario without the text for `rubric`, and the way out: what all scenarios have, or to do without that one."""
    common = [mode for mode in scenario.instructions if all(mode in s.instructions for s in config.resolved())]
    outs = [f"{flag('rubrics')} {mode}" for mode in common[:1]]
    if outs and scenario.teacher is None:
        outs = [f"{outs[0]} with a policy that needs no teacher, such as {flag('policies')} random"]
    outs += [f"{flag('rubric_files')} {one_line(scenario.name)}:{rubric}=FILE"]
    outs += [f"leave {one_line(scenario.name)} out"] if len(config.scenarios) > 1 else []
    has = ", ".join(scenario.instructions)
    return UsageError(
        f'scenario "{one_line(scenario.name)}" has no rubric "{rubric}", only {has}: {", or ".join(outs)}'
    )


def _check_numbers(config: RunConfig, source: Mapping[str, str]) -> None:
    for field in _AT_LEAST_1:
        value: int | None = getattr(config, field)
        if value is not None and not 1 <= value <= _BIGGEST:
            raise UsageError(f"{source[field]} is {value}: must be a whole number from 1 to {_BIGGEST}")
    if not 0 <= config.seed <= MAX_SEED:
        raise UsageError(f"{source['seed']} is {config.seed}: must be from 0 to {MAX_SEED}")
    if config.cpus_per_actor is not None and config.cpus_per_actor <= 0:
        raise UsageError(f"{source['cpus_per_actor']} is {config.cpus_per_actor:g}: must be above 0, such as 1 or 0.5")
    for field in ("gpus_per_actor", "policy_server_gpus"):
        gpus: float = getattr(config, field)
        if gpus < 0:
            raise UsageError(f"{source[field]} is {gpus:g}: must be 0 or above, such as 0.25")
    _check_server(config, source)
    for field in ("cpus_per_actor", "gpus_per_actor", "policy_server_gpus"):
        share: float | None = getattr(config, field)
        if share is not None and share > 1 and share != int(share):
            raise UsageError(f"{source[field]} is {share:g}: above 1 it must be a whole number")
    if config.unit_timeout_s is not None and config.unit_timeout_s <= 0:
        raise UsageError(f"{source['unit_timeout_s']} is {config.unit_timeout_s:g}: must be above 0 seconds")


def _check_server(config: RunConfig, source: Mapping[str, str]) -> None:
    if not 0 <= config.policy_server <= _BIGGEST:
        raise UsageError(f"{source['policy_server']} is {config.policy_server}: must be a whole number from 0")
    if config.policy_server_wait_ms < 0:
        raise UsageError(f"{source['policy_server_wait_ms']} is {config.policy_server_wait_ms:g}: must be 0 or above")
    if config.policy_server and config.pool != "ray":
        raise UsageError(f"{source['policy_server']} needs {source['pool']} ray")
    if config.policy_server and config.gpus_per_actor:
        raise UsageError(
            f"{source['gpus_per_actor']} is for actors that hold a network of their own: with "
            f"{source['policy_server']}, give the servers theirs with {source['policy_server_gpus']}"
        )


def _check_real_time(config: RunConfig, source: Mapping[str, str]) -> None:
    if config.realtime is not None:
        _check_choice(source["realtime"], config.realtime, MEANWHILE)
    if config.latency_ms is None:
        return
    told = f"{source['latency_ms']} is {config.latency_ms:g}"
    if not 0 <= config.latency_ms <= _LONGEST_THOUGHT_MS:
        raise UsageError(f"{told}: must be from 0 to {_LONGEST_THOUGHT_MS} milliseconds")
    if config.realtime is None:
        raise UsageError(f"{told}: only in real time does thinking cost time; give --realtime hold (or idle) too")


def _check_nodes(config: RunConfig, source: Mapping[str, str]) -> None:
    """Labels as Ray takes them: those of Kubernetes (a prefix, `/` and a name; 63 characters at most)."""
    if config.placement_timeout_s <= 0:
        raise UsageError(f"{source['placement_timeout_s']} is {config.placement_timeout_s:g}: must be above 0 seconds")
    for label in config.node_labels:
        if not _LABEL.fullmatch(label):
            raise UsageError(
                f'{source["node_labels"]} is "{one_line(label)}": must be KEY=VALUE, as in zone=a, of letters, digits, '
                '".", "_" and "-"'
            )
        key = label.partition("=")[0]
        if len([one for one in config.node_labels if one.partition("=")[0] == key]) > 1:
            raise UsageError(f'{source["node_labels"]}: "{one_line(key)}" is given twice: a node has one value of it')
    if config.node_labels and config.pool != "ray":
        raise UsageError(f"{source['node_labels']} needs {source['pool']} ray")


def _check_places(config: RunConfig, source: Mapping[str, str]) -> None:
    _check_nodes(config, source)
    _check_metrics_port(config, source)
    if not config.out:
        raise UsageError(f"{source['out']} is empty: must be a folder or a URI such as s3://bucket/runs")
    if config.run_id is not None and not _RUN_ID.fullmatch(config.run_id):
        raise UsageError(
            f'{source["run_id"]} is "{one_line(config.run_id)}": must be one name of letters, digits, ".", "_" and "-" '
            "(no path), starting with a letter or digit"
        )


def _check_metrics_port(config: RunConfig, source: Mapping[str, str]) -> None:
    port = config.metrics_port
    if port is None:
        return
    if not 0 <= port <= LARGEST_PORT:
        raise UsageError(f"{source['metrics_port']} is {port}: must be a whole number from 0 to {LARGEST_PORT}")
    if config.pool != "ray":
        raise UsageError(f"{source['metrics_port']} needs {source['pool']} ray: without Ray there are no metrics")


def _check_models(config: RunConfig, source: Mapping[str, str]) -> None:
    """Settings of policies that are models: each by itself, then those that need one another."""
    _check_choice(source["observe"], config.observe, OBSERVES)
    _check_choice(source["answer"], config.answer, ANSWERS)
    for field in ("history", "history_frames"):
        value: int = getattr(config, field)
        if not 0 <= value <= _BIGGEST:
            raise UsageError(f"{source[field]} is {value}: must be a whole number from 0 to {_BIGGEST}")
    if config.policy_temperature < 0:
        raise UsageError(f"{source['policy_temperature']} is {config.policy_temperature:g}: must be 0 or above")
    if config.observe != "text" and config.frames == "none":
        raise UsageError(f"{source['observe']} {config.observe} sends frames: {flag('frames')} cannot be none")
    if config.history_frames > config.history:
        told = f"{source['history_frames']} is {config.history_frames}, and {source['history']} is {config.history}"
        raise UsageError(f"{told}: only exchanges that are kept can keep their picture")
    if config.history_frames and config.observe == "text":
        raise UsageError(f"{source['history_frames']} is for {flag('observe')} frame or both: text has no pictures")
    if config.policy_base_url is not None:
        Endpoint(config.policy_base_url.rstrip("/"))
