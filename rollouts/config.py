"""What a run is to do: one frozen RunConfig, checked whole before anything is written."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rollouts.config_checks import PoolName, check_config, check_repeated
from rollouts.frames import FrameFormat
from rollouts.grading_config import GRADERS, GRADING_KINDS, GradingConfig
from rollouts.policies.model_settings import ModelSettings, Observe
from rollouts.policies.reply_rules import Wanted
from rollouts.read_files import ReadFiles, read_files, rubric_with_whole_path, with_whole_path
from rollouts.realtime import Meanwhile, RealTime
from rollouts.rubrics import RUBRICS
from rollouts.scenarios.registry import PUBLISHED_SCENARIOS, SCENARIOS
from rollouts.scenarios.scenario import Scenario
from rollouts.seeds import PUBLISHED, parse_seeds
from rollouts.settings import Given, Kind, convert, flag, layers, unknown


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
    `node_labels` holds `KEY=VALUE`, which the nodes of a cluster that play must have; `placement_timeout_s` is how long
    a place for the first actor is waited for.
    `metrics_port` is where a Ray of the run's own is scraped, 0 for any port, None for nowhere.
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
    metrics_port: int | None = None
    cpus_per_actor: float | None = None
    gpus_per_actor: float = 0.0
    node_labels: tuple[str, ...] = ()
    placement_timeout_s: float = 600.0
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

    @property
    def labels(self) -> dict[str, str]:
        """What the nodes that play must be labelled with."""
        return dict(label.split("=", 1) for label in self.node_labels)

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
    "metrics_port": "int",
    "cpus_per_actor": "float",
    "gpus_per_actor": "float",
    "node_labels": "texts",
    "placement_timeout_s": "float",
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


def load_config(
    flags: Mapping[str, object] | None = None,
    toml: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> RunConfig:
    """The checked configuration: flags (None = not given) over the TOML file over `env` (default: the process's own).

    Any wrong value, unknown key or impossible combination is one UsageError that names the thing, the value and the
    choices.
    """
    return _run_config(given_settings(flags, toml, env))


def load_configs(
    flags: Mapping[str, object] | None = None,
    toml: Path | None = None,
    env: Mapping[str, str] | None = None,
    graders: tuple[str, ...] = GRADERS,
) -> tuple[RunConfig, GradingConfig]:
    """What to play and how to grade it, from the same three layers; `graders` are those that there can be."""
    return configs_of(given_settings(flags, toml, env), graders)


def configs_of(given: Mapping[str, Given], graders: tuple[str, ...] = GRADERS) -> tuple[RunConfig, GradingConfig]:
    """The same, from what `given_settings` found."""
    return _run_config(given), GradingConfig.read(given, graders)


def given_settings(
    flags: Mapping[str, object] | None = None, toml: Path | None = None, env: Mapping[str, str] | None = None
) -> dict[str, Given]:
    """What was given, by the names of both configurations, unread: flags over the TOML file over `env`."""
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
    check_repeated(config, source)
    config = dataclasses.replace(config, read=read_files(config.scenarios, config.rubric_files))
    check_config(config, source)
    return config


def _scenario_names(names: tuple[str, ...]) -> tuple[str, ...]:
    names = _expanded(_expanded(names, "all", tuple(SCENARIOS)), PUBLISHED, PUBLISHED_SCENARIOS)
    return tuple(map(with_whole_path, names))


def _expanded(names: tuple[str, ...], word: str, everything: tuple[str, ...]) -> tuple[str, ...]:
    """`names`, with everything in the place of `word` (then a name beside it is no repetition)."""
    if word not in names:
        return names
    return tuple(dict.fromkeys(n for name in names for n in (everything if name == word else (name,))))
