"""From the settings of a run to the command of a job: checked here, and said so that it holds on the nodes.

Settings of all layers become flags, since a job has neither this shell's environment nor a path of this machine. Files
are named from the working dir, of which every node gets a copy; `--out` is absolute, for that copy is deleted.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rollouts.commands.job_files import files_of, place_in
from rollouts.commands.preparing import prepare
from rollouts.config import KINDS, RunConfig, configs_of
from rollouts.errors import UsageError
from rollouts.grading_config import GRADING_KINDS
from rollouts.policies.registry import around_path
from rollouts.scenario_files.from_toml import is_scenario_file
from rollouts.scrub import holds_secret
from rollouts.settings import Given, Kind, convert, flag
from rollouts.store.storage import LocalStorage, refuse_credentials

PYTHON = ("python", "-m", "rollouts.cli")
"""Works where the package is installed on the nodes, and where its code comes with the working dir."""
_FILES = ("prices", "grader_prompt", "summarizer_prompt")
_OF_THE_COMMAND = ("address", "pool", "metrics_port", "out")


@dataclass(frozen=True)
class Place:
    """`root`: the working dir here, absolute. `on_nodes`: files and folders that all nodes have, absolute."""

    root: Path
    on_nodes: tuple[Path, ...] = ()

    def is_on_nodes(self, path: Path) -> bool:
        return any(path.is_relative_to(one) for one in self.on_nodes)

    def moved(self, named: str, what: str) -> str:
        """`named` as the job names it. Errors: `UsageError` where that file does not go along."""
        path = Path(os.path.abspath(Path(named).expanduser()))
        if self.is_on_nodes(path):
            return str(path)
        if (place := place_in(self.root, path)) is None:
            raise UsageError(
                f'{what} "{named}" does not go along with the job, for it is not in {self.root}: put it there, choose '
                "another --working-dir, or name a place that every node has with --on-nodes"
            )
        return place.as_posix()


def check_here(given: Mapping[str, Given], place: Place) -> list[Path]:
    """All that can be known of the run on this machine; returns the files of its policies' networks. Writes, sends and
    starts nothing. Errors: `UsageError`."""
    config, grading = configs_of(given)
    if config.pool != "ray":
        raise UsageError(f"{flag('pool')} {config.pool} is for this machine: a job plays on the cluster's Ray")
    if config.metrics_port is not None:
        raise UsageError(f"{flag('metrics_port')} is for a Ray of our own: a cluster has ports for its metrics already")
    if "://" in config.out:
        refuse_credentials(config.out)
    looked_at = _without(config, place)
    if looked_at.policies:
        prepare(looked_at, LocalStorage(place.root), new=False, grading=grading, may_call=False)
    paths = (found[1] for spec in looked_at.policies if (found := around_path(spec)))
    return [file for path in paths for file in files_of(place.root / place.moved(path, "policy"))]


def _without(config: RunConfig, place: Place) -> RunConfig:
    """The run but for policies whose networks lie on the nodes, which cannot be looked at here."""

    def is_here(spec: str) -> bool:
        found = around_path(spec)
        return found is None or not place.is_on_nodes(Path(found[1]).absolute())

    policies = tuple(filter(is_here, config.policies))
    if len(policies) == len(config.policies):
        return config
    return dataclasses.replace(config, policies=policies, policy_server=0)


def command_of(given: Mapping[str, Given], place: Place, new: bool, as_json: bool) -> str:
    """For a shell on the nodes. Errors: `UsageError` for a file that does not go along, or a secret."""
    words = [*PYTHON, "run", *_words(given, place)]
    words += ["--new"] * new + ["--json"] * as_json
    command = shlex.join(words)
    if (name := holds_secret(command)) is not None:
        raise UsageError(
            f"the command holds the value of {name}, and Ray stores and shows the commands of jobs: "
            "give keys to the nodes, by their environment or --key-file"
        )
    return command


def out_of(given: Mapping[str, Given]) -> str:
    """Where the run will lie: a URI, or a path that is absolute as it is or from the current folder."""
    out = str(convert(given["out"], "text")) if "out" in given else RunConfig().out
    return out if "://" in out else os.path.abspath(Path(out).expanduser())


def _words(given: Mapping[str, Given], place: Place) -> Iterator[str]:
    kinds = {**KINDS, **GRADING_KINDS}
    for name, item in given.items():
        if name not in _OF_THE_COMMAND:
            for value in _values(item, kinds[name]):
                yield from (flag(name), *([] if value is None else [_moved(name, value, place)]))
    yield from (flag("out"), out_of(given))


def _values(item: Given, kind: Kind) -> list[str | None]:
    """What follows the flag, once for each time that it is given: None is a flag alone."""
    if kind == "seeds":
        return [",".join(map(str, item.value)) if isinstance(item.value, list | tuple) else str(item.value)]
    value = convert(item, kind)
    if isinstance(value, bool):
        return [None] if value else []
    return list(value) if isinstance(value, tuple) else [str(value)]


def _moved(name: str, value: str, place: Place) -> str:
    """A value that names a file, as the job names it."""
    changes: dict[str, Callable[[str], str]] = {
        "scenarios": lambda text: place.moved(text, flag(name)) if is_scenario_file(text) else text,
        "rubric_files": lambda text: _rubric(text, place),
        "policies": lambda text: _policy(text, place),
        **dict.fromkeys(_FILES, lambda text: place.moved(text, flag(name))),
    }
    return changes.get(name, str)(value)


def _policy(spec: str, place: Place) -> str:
    found = around_path(spec)
    return spec if found is None else f"{found[0]}{place.moved(found[1], f'policy {spec!r}:')}{found[2]}"


def _rubric(given: str, place: Place) -> str:
    what, _, path = given.partition("=")
    return f"{what}={place.moved(path, flag('rubric_files'))}"
