"""A table of a TOML file, read by type. Whatever is wrong is one line with the file, the key and the value.

Knows nothing of what the keys mean.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NoReturn

from rollouts.errors import UsageError
from rollouts.importing import import_object
from rollouts.settings import one_line, unknown


@dataclass(frozen=True)
class Table:
    """`values` as TOML gave them; `file` and `name` (`teacher[2]`, empty at the top) say where they stand."""

    file: str
    name: str
    values: dict[str, Any]

    def check_keys(self, known: Collection[str]) -> None:
        """Errors: `UsageError` for a key that is not `known`."""
        for key in self.values:
            if key not in known:
                raise unknown(f"{self.file}: key", self._full(key), [self._full(name) for name in known])

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            self.wrong(key, "must be a text")
        return value

    def needed_text(self, key: str) -> str:
        return self.text(key) or self.missing(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; one text stands for a list of one."""
        value = self.values.get(key, [])
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(key, "must be a list of texts")
        return tuple(value)

    def choice(self, key: str, value: str, choices: Collection[str]) -> str:
        """`value`, which stands under `key`, if it is one of `choices`."""
        if value not in choices:
            raise unknown(f"{self.file}: {self._full(key)}", value, choices)
        return value

    def chosen(self, key: str, choices: Collection[str]) -> tuple[str, ...]:
        """`texts`, each of them one of `choices`."""
        return tuple(self.choice(key, value, choices) for value in self.texts(key))

    def count(self, key: str, least: int = 1, most: int = 2**31 - 1) -> int | None:
        value = self.values.get(key)
        if value is not None and (type(value) is not int or not least <= value <= most):
            self.wrong(key, f"must be a whole number from {least} to {most}")
        return value

    def number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
            self.wrong(key, "must be a finite number")
        return value

    def switch(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.wrong(key, "must be true or false")
        return value

    def table(self, key: str) -> Table | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.wrong(key, "must be a table")
        return Table(self.file, self._full(key), value)

    def tables(self, key: str) -> list[Table]:
        """An array of tables."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.wrong(key, "must be an array of tables")
        return [Table(self.file, f"{self._full(key)}[{number}]", item) for number, item in enumerate(value, 1)]

    def imported(self, key: str) -> object:
        """What `module:name` names."""
        try:
            return import_object(self.needed_text(key), "function", "give module:function")
        except UsageError as error:
            raise UsageError(f"{self.file}: {self._full(key)}: {error}") from error

    def function(self, key: str, takes: int) -> Callable[..., Any]:
        """The function of `takes` arguments that `module:name` names."""
        found = self.imported(key)
        if not callable(found) or not _takes(found, takes):
            self.wrong(key, f"must be a function of {takes} argument{'s' * (takes > 1)}")
        return found

    def refuse(self, key: str, why: str) -> NoReturn:
        raise UsageError(f"{self.file}: {self._full(key)}: {why}")

    def missing(self, key: str) -> NoReturn:
        raise UsageError(f"{self.file}: {self._full(key)} is missing")

    def wrong(self, key: str, wanted: str) -> NoReturn:
        raise UsageError(f'{self.file}: {self._full(key)} is "{one_line(str(self.values[key]), 200)}": {wanted}')

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # some built-in functions do not say what they take
        return True
    return True
