"""Settings in layers: command-line flags over a TOML file over the environment. Knows nothing of what they mean.

A setting goes by its field name (`episodes_per_seed`) in a file, `--episodes-per-seed` as a flag and
`DOOM_ROLLOUTS_EPISODES_PER_SEED` in the environment. Lists are repeated flags, TOML arrays, or commas in the
environment.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rollouts.errors import UsageError

PREFIX = "DOOM_ROLLOUTS_"
SINGULAR = {
    **{"scenario": "scenarios", "rubric": "rubrics", "policy": "policies", "variable": "variables"},
    **{"rubric_file": "rubric_files", "node_label": "node_labels", "placement_timeout": "placement_timeout_s"},
}
_FOLDER = "is a folder, not a file"
Kind = Literal["text", "texts", "numbers", "int", "float", "bool", "seeds"]


@dataclass(frozen=True)
class Given:
    """A value as it was given, and where: what an error message calls it (`--tics`, `tics in run.toml`)."""

    value: object
    source: str


def one_line(text: str, limit: int = 2_000) -> str:
    """`text` on one printable line, so that no value from outside can forge a second one."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def did_you_mean(value: str, choices: Collection[str]) -> str:
    """` (did you mean "x"?)`, or nothing when no choice is close."""
    close = difflib.get_close_matches(value, list(choices), n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def unknown(thing: str, value: str, choices: Collection[str]) -> UsageError:
    """The one sentence for everything that is not among its choices."""
    return UsageError(
        f'{thing} "{one_line(value)}" is unknown{did_you_mean(value, choices)}: choose from {", ".join(choices)}'
    )


def layers(
    flags: Mapping[str, object], toml: Path | None, env: Mapping[str, str], known: Collection[str]
) -> dict[str, Given]:
    """What was given, by field name, the strongest layer last: the environment, then the file, then the flags."""
    given = {name: Given(value, source) for name, value, source in _from_env(env, known)}
    if toml is not None:
        given.update((name, Given(value, source)) for name, value, source in _from_toml(toml, known))
    given.update((name, Given(value, flag(name))) for name, value in flags.items() if value is not None)
    return given


def flag(name: str) -> str:
    """How a person types the setting: `scenarios` is `--scenario`, for it is repeated."""
    singular = {field: word for word, field in SINGULAR.items()}
    return f"--{singular.get(name, name).replace('_', '-')}"


def why_no_file(path: Path) -> str | None:
    """What is wrong with a file that was named, in words that follow its name; None where one seems to be there."""
    if path.is_dir():
        return _FOLDER
    return None if path.exists() else "there is no such file"


def unreadable(error: OSError) -> str:
    """The same where it could not be read."""
    return _FOLDER if isinstance(error, IsADirectoryError) else error.strerror or str(error)


def _from_env(env: Mapping[str, str], known: Collection[str]) -> Iterable[tuple[str, object, str]]:
    for key, text in env.items():
        if key.startswith(PREFIX):
            name = key.removeprefix(PREFIX).lower()
            name = SINGULAR.get(name, name)
            if name not in known:
                raise unknown("environment variable", key, [f"{PREFIX}{k.upper()}" for k in known])
            yield name, text, key


def _from_toml(path: Path, known: Collection[str]) -> Iterable[tuple[str, object, str]]:
    seen: dict[str, str] = {}
    for key, value in _read_toml(path).items():
        name = key.replace("-", "_")
        name = SINGULAR.get(name, name)
        if name not in known:
            raise unknown(f"{path}: key", key, known)
        if name in seen:
            raise UsageError(f'{path}: "{seen[name]}" and "{key}" are the same setting: keep one')
        seen[name] = key
        yield name, value, f"{key} in {path}"


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f'config file "{path}": {unreadable(error)}') from error
    except ValueError as error:
        raise UsageError(f'config file "{path}" is not TOML: {one_line(str(error))}') from error


def convert(given: Given, kind: Kind) -> object:
    """The value as `kind`. Text is parsed; a value that already has a type must have the right one."""
    if kind == "texts":
        return _texts(given)
    if kind == "numbers":
        return _numbers(given)
    if kind == "seeds":
        return given.value
    value = given.value.strip() if isinstance(given.value, str) else given.value
    if kind == "text":
        return value if isinstance(value, str) else _wrong(given, "text")
    if kind == "bool":
        return _bool(given, value)
    return _int(given, value) if kind == "int" else _float(given, value)


def _texts(given: Given) -> tuple[str, ...]:
    value = given.value
    items: list[object] = list(value.split(",")) if isinstance(value, str) else [value]
    if isinstance(value, list | tuple):
        items = list(value)
    texts = tuple(item.strip() for item in items if isinstance(item, str))
    if len(texts) != len(items):
        _wrong(given, "a list of texts")
    return texts


def _numbers(given: Given) -> str:
    """Numbers with commas between, whether written so or as a list."""
    items = given.value if isinstance(given.value, list | tuple) else [given.value]
    if all(isinstance(item, str) for item in items):
        return ",".join(map(str, items)).strip()
    return ",".join(str(_float(Given(item, f"a number of {given.source}"), item)) for item in items)


def _bool(given: Given, value: object) -> bool:
    words: dict[object, bool] = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(value, bool):
        return value
    text = value.lower() if isinstance(value, str) else None
    return words[text] if text in words else bool(_wrong(given, "true or false"))


def _int(given: Given, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.removeprefix("-") if isinstance(value, str) else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        _wrong(given, "a whole number")
    return int(str(value))


def _float(given: Given, value: object) -> float:
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        _wrong(given, "a finite number")
    return number


def _wrong(given: Given, wanted: str) -> object:
    raise UsageError(f'{given.source} is "{one_line(str(given.value))}": must be {wanted}')
