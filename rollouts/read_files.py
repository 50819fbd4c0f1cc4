"""What a run's configuration names as files, read once: scenario files and rubric texts.

It is small and picklable, so that workers play what was read, whatever their machine has or the file has become.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rollouts.errors import UsageError
from rollouts.rubrics import RUBRICS
from rollouts.scenario_files.from_toml import is_scenario_file, read_scenario
from rollouts.scenarios.registry import find_scenario
from rollouts.scenarios.scenario import Scenario
from rollouts.settings import flag, one_line, unknown, unreadable


@dataclass(frozen=True)
class RubricText:
    """What a policy is told in `mode` in the scenario of that name (None: in all), byte for byte the file's."""

    scenario: str | None
    mode: str
    text: str


@dataclass(frozen=True)
class ReadFiles:
    """`scenarios` maps paths, as they were given, to what was read there."""

    scenarios: Mapping[str, Scenario]
    rubrics: tuple[RubricText, ...] = ()

    def scenario(self, name: str) -> Scenario:
        """The scenario that was asked for as `name`, with the rubric texts that were given for it: one for this
        scenario alone counts before one for all."""
        found = self.scenarios[name] if name in self.scenarios else find_scenario(name)
        given = sorted(self.rubrics, key=lambda rubric: rubric.scenario is not None)
        texts = {rubric.mode: rubric.text for rubric in given if rubric.scenario in (None, found.name)}
        return dataclasses.replace(found, instructions={**found.instructions, **texts}) if texts else found


def with_whole_path(scenario: str) -> str:
    """A scenario file's path as it holds in any folder; other names stay as they are."""
    return str(Path(scenario).absolute()) if is_scenario_file(scenario) else scenario


def rubric_with_whole_path(given: str) -> str:
    """`[SCENARIO:]MODE=PATH` as it holds in any folder."""
    what, equals, path = given.partition("=")
    return f"{what}={Path(path).absolute()}" if equals and path else given


def read_files(scenarios: Iterable[str], rubric_files: Iterable[str]) -> ReadFiles:
    """Read those of `scenarios` that are files, and every `[SCENARIO:]MODE=PATH`. Errors: `UsageError`."""
    files = ReadFiles({name: read_scenario(Path(name)) for name in scenarios if is_scenario_file(name)})
    rubrics = tuple(map(_read_rubric, rubric_files))
    names = [files.scenario(name).name for name in scenarios] if rubrics else []
    for rubric in rubrics:
        if rubric.scenario is not None and rubric.scenario not in names:
            raise unknown(f"{flag('rubric_files')}: scenario", rubric.scenario, names)
    for what, n in Counter((rubric.scenario, rubric.mode) for rubric in rubrics).items():
        if n > 1:
            raise UsageError(f"{flag('rubric_files')}: {':'.join(filter(None, what))} is given {n} times: give it once")
    return dataclasses.replace(files, rubrics=rubrics)


def _read_rubric(given: str) -> RubricText:
    what, equals, path = given.partition("=")
    scenario, _, mode = what.rpartition(":")
    if not equals or not path:
        raise UsageError(f'{flag("rubric_files")} is "{one_line(given)}": must be MODE=PATH or SCENARIO:MODE=PATH')
    if mode not in RUBRICS:
        raise unknown(f"{flag('rubric_files')}: rubric", mode, RUBRICS)
    return RubricText(scenario or None, mode, read_text(Path(path), f'{flag("rubric_files")} "{one_line(given)}"'))


def read_text(path: Path, what: str) -> str:
    """A text file, byte for byte. Errors: `UsageError` naming `what`."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{what}: {unreadable(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} is no UTF-8 text: {error}") from error
    if not text.strip():
        raise UsageError(f"{what} is empty: must be the text for the policy")
    return text
