"""What a run is to do: one frozen RunConfig, checked whole before anything is written."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from rollouts.calls.endpoint import Endpoint
from rollouts.errors import UsageError
from rollouts.frames import FRAME_FORMATS, FrameFormat
from rollouts.grading_config import GRADERS, GRADING_KINDS, GradingConfig
from rollouts.policies.model_settings import ANSWERS, OBSERVES, ModelSettings, Observe
from rollouts.policies.registry import check_policy, check_teacher
from rollouts.policies.reply_rules import Wanted
from rollouts.read_files import ReadFiles, read_files, rubric_with_whole_path, with_whole_path
from rollouts.realtime import MEANWHILE, Meanwhile, RealTime
from rollouts.rubrics import RUBRICS
from rollouts.scenarios import PUBLISHED_SCENARIOS, SCENARIOS, Scenario
from rollouts.seeds import MAX_SEED, PUBLISHED, parse_seeds
from rollouts.settings import Given, Kind, convert, flag, layers, one_line, unknown

PoolName = Literal["ray", "local"]
POOLS: tuple[str, ...] = get_args(PoolName)
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)


@dataclass(frozen=True)
class RunConfig:
    """Everything that a run can be told. `load_config` makes checked ones; the constructor checks nothing.

    `scenarios` holds registry names, whole paths of scenario files, or `module:ATTRIBUTE`; `rubric_files` holds
    `[SCENARIO:]MODE=PATH`; `policies` holds `NAME` or `NAME:ARGUMENT`. `read` is what those files held when the
    configuration was loaded: it goes with it to workers that may not have them, and into no record.
    `seeds` is None for the published seeds of each scenario; `tics` and `step_cap` are None for each scenario's own.
    `actors` is None for as many as fit (the local pool is this process alone, whatever it says), `cpus_per_actor` for
    one CPU, or a part of one where all wait for models; `episodes_per_unit` is None for the plan's own rule. `out` is
    a folder or a URI. From `observe` to `policy_base_url` the settings are for policies that are models
    (`ModelSettings`); `policy_base_url` None is the endpoint that graders use.
    `realtime` is None where the game stands still while a policy thinks; `latency_ms` is None where that is measured.
    `policy_server`: how many actors hold the networks for all others, 0 for none.
    An actor's process is replaced after `recycle_after` episodes or above `recycle_above_mb` MiB of memory.
    """

    scenarios: tuple[str, ...] = PUBLISHED_SCENARIOS
    rubrics: tuple[str, ...] = ("rule",)
    rubric_files: tuple[str, ...] = ()
    policies: tuple[str, ...] = ("oracle",)
    seeds: tuple[int, ...] | None = None
    episodes_per_seed: int = 1
    tics: int | None = None
    step_cap: int | None = None
    frames: FrameFormat = "png"
    realtime: Meanwhile | None = None
    latency_ms: float | None = None
    actors: int | None = None
    pool: PoolName = "ray"
    address: str | None = None
    cpus_per_actor: float | None = None
    gpus_per_actor: float = 0.0
    episodes_per_unit: int | None = None
    seed: int = 0
    out: str = "runs"
    run_id: str | None = None
    variables: tuple[str, ...] = ()
    retry_failed: bool = False
    recycle_after: int = 1_000
    recycle_above_mb: int = 2_000
    unit_timeout_s: float | None = None
    policy_server: int = 0
    policy_server_gpus: float = 0.0
    policy_server_batch: int = 64
    policy_server_wait_ms: float = 2.0
    observe: str = "text"
    answer: str = "letters"
    shuffle_options: bool = False
    history: int = 0
    history_frames: int = 0
    policy_temperature: float = 0.0
    policy_max_tokens: int | None = None
    policy_base_url: str | None = None
    read: ReadFiles | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def model_settings(self) -> ModelSettings:
        """How policies that are models are shown the game, and how they answer."""
        return ModelSettings(
            observe=cast(Observe, self.observe),
            answer=cast(Wanted, self.answer),
            shuffle_options=self.shuffle_options,
            history=self.history,
            history_frames=self.history_frames,
            temperature=self.policy_temperature,
            max_tokens=self.policy_max_tokens,
            frames=self.frames,
        )

    def resolved(self) -> tuple[Scenario, ...]:
        """The scenarios themselves, in the order given. Errors: `UsageError` for those that cannot be had."""
        files = self.read or read_files(self.scenarios, self.rubric_files)
        return tuple(map(files.scenario, self.scenarios))

    def scenario(self, name: str) -> Scenario:
        """The scenario of this run that calls itself `name` (what units and rows carry)."""
        found = next((s for s in self.resolved() if s.name == name), None)
        if found is None:
            raise unknown("scenario", name, [s.name for s in self.resolved()])
        return found

    def seeds_of(self, scenario: Scenario) -> tuple[int, ...]:
        return scenario.seeds if self.seeds is None else self.seeds

    def tics_of(self, scenario: Scenario) -> int:
        """Engine tics a decision."""
        return scenario.tics if self.tics is None else self.tics

    def step_cap_of(self, scenario: Scenario) -> int:
        """Most decisions an episode."""
        return scenario.step_cap if self.step_cap is None else self.step_cap

    def real_time(self) -> RealTime | None:
        """How thinking costs game time; None where it does not."""
        return None if self.realtime is None else RealTime(self.realtime, self.latency_ms)

    def as_dict(self) -> dict[str, Any]:
        """For run.json and the manifest: plain JSON values."""
        values = {name: getattr(self, name) for name in KINDS}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """The inverse of `as_dict`. Keys of other versions are errors."""
        strange = set(values) - set(KINDS)
        if strange:
            raise unknown("recorded setting", min(strange), tuple(KINDS))
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**fields)


KINDS: dict[str, Kind] = {
    "scenarios": "texts",
    "rubrics": "texts",
    "rubric_files": "texts",
    "policies": "texts",
    "seeds": "seeds",
    "episodes_per_seed": "int",
    "tics": "int",
    "step_cap": "int",
    "frames": "text",
    "realtime": "text",
    "latency_ms": "float",
    "actors": "int",
    "pool": "text",
    "address": "text",
    "cpus_per_actor": "float",
    "gpus_per_actor": "float",
    "episodes_per_unit": "int",
    "seed": "int",
    "out": "text",
    "run_id": "text",
    "variables": "texts",
    "retry_failed": "bool",
    "recycle_after": "int",
    "recycle_above_mb": "int",
    "unit_timeout_s": "float",
    "observe": "text",
    "answer": "text",
    "shuffle_options": "bool",
    "history": "int",
    "history_frames": "int",
    "policy_temperature": "float",
    "policy_max_tokens": "int",
    "policy_base_url": "text",
    "policy_server": "int",
    "policy_server_gpus": "float",
    "policy_server_batch": "int",
    "policy_server_wait_ms": "float",
}
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
_BIGGEST = 2**31 - 1
_LONGEST_THOUGHT_MS = 3_600_000


def load_config(
    flags: Mapping[str, object] | None = None,
    toml: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> RunConfig:
    """The checked configuration: flags (None = not given) over the TOML file over `env` (default: the process's own).

    Any wrong value, unknown key or impossible combination is one UsageError that names the thing, the value and the
    choices.
    """
    return _run_config(_given(flags, toml, env))


def load_configs(
    flags: Mapping[str, object] | None = None,
    toml: Path | None = None,
    env: Mapping[str, str] | None = None,
    graders: tuple[str, ...] = GRADERS,
) -> tuple[RunConfig, GradingConfig]:
    """What to play and how to grade it, from the same three layers; `graders` are those that there can be."""
    given = _given(flags, toml, env)
    return _run_config(given), GradingConfig.read(given, graders)


def _given(flags: Mapping[str, object] | None, toml: Path | None, env: Mapping[str, str] | None) -> dict[str, Given]:
    known = (*KINDS, *GRADING_KINDS)
    return layers(flags or {}, toml, os.environ if env is None else env, known)


def _run_config(everything: Mapping[str, Given]) -> RunConfig:
    given = {name: item for name, item in everything.items() if name in KINDS}
    values: dict[str, Any] = {name: convert(item, KINDS[name]) for name, item in given.items()}
    source = {name: given[name].source if name in given else flag(name) for name in KINDS}
    if "seeds" in given:
        values["seeds"] = parse_seeds(given["seeds"].value, source["seeds"])
    if "scenarios" in values:
        values["scenarios"] = _scenario_names(values["scenarios"])
    if "rubric_files" in values:
        values["rubric_files"] = tuple(map(rubric_with_whole_path, values["rubric_files"]))
    if "rubrics" in values:
        values["rubrics"] = _expanded(values["rubrics"], "both", RUBRICS)
    config = RunConfig(**values)
    _check_repeated(config, source)
    config = dataclasses.replace(config, read=read_files(config.scenarios, config.rubric_files))
    _check_names(config, source)
    _check_numbers(config, source)
    _check_real_time(config, source)
    _check_places(config, source)
    _check_models(config, source)
    return config


def _scenario_names(names: tuple[str, ...]) -> tuple[str, ...]:
    names = _expanded(_expanded(names, "all", tuple(SCENARIOS)), PUBLISHED, PUBLISHED_SCENARIOS)
    return tuple(map(with_whole_path, names))


def _expanded(names: tuple[str, ...], word: str, everything: tuple[str, ...]) -> tuple[str, ...]:
    """`names`, with everything in the place of `word` (then a name beside it is no repetition)."""
    if word not in names:
        return names
    return tuple(dict.fromkeys(n for name in names for n in (everything if name == word else (name,))))


def _check_repeated(config: RunConfig, source: Mapping[str, str]) -> None:
    for name in ("scenarios", "rubrics", "policies", "variables", "rubric_files"):
        values: tuple[str, ...] = getattr(config, name)
        if not values and name not in ("variables", "rubric_files"):
            raise UsageError(f"{source[name]} is empty: give at least one")
        for value in values:
            if values.count(value) > 1:
                raise UsageError(f'{source[name]}: "{one_line(value)}" is given twice: give it once')


def _check_names(config: RunConfig, source: Mapping[str, str]) -> None:
    for rubric in config.rubrics:
        if rubric not in RUBRICS:
            raise unknown("rubric", rubric, (*RUBRICS, "both"))
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


def _check_places(config: RunConfig, source: Mapping[str, str]) -> None:
    if not config.out:
        raise UsageError(f"{source['out']} is empty: must be a folder or a URI such as s3://bucket/runs")
    if config.run_id is not None and not _RUN_ID.fullmatch(config.run_id):
        raise UsageError(
            f'{source["run_id"]} is "{one_line(config.run_id)}": must be one name of letters, digits, ".", "_" and "-" '
            "(no path), starting with a letter or digit"
        )


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
