"""One export from its rows to a finished folder; a dry one counts and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rollouts.errors import UsageError
from rollouts.exports.card import write_beside
from rollouts.exports.samples import Form, Tally, write_samples
from rollouts.exports.source import Source
from rollouts.exports.target import check_target, fresh_folder


class Work(Protocol):
    """Writes what comes of a source into `folder` (None: nothing is written) and counts it."""

    def write(self, source: Source, folder: Path | None, tally: Tally) -> None: ...


@dataclass(frozen=True)
class Samples:
    """A sample a row, the first `limit` of them."""

    form: Form
    limit: int | None = None

    def write(self, source: Source, folder: Path | None, tally: Tally) -> None:
        write_samples(source.rows(self.form.columns), self.form, folder, self.limit, tally)


@dataclass(frozen=True)
class Export:
    """`format` names the `work`, `settings` are what else decides what comes out. `limit`: samples at most."""

    source: Source
    format: str
    work: Work
    out: Path
    limit: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def count(self) -> dict[str, Any]:
        """What would be written, and nothing is. Errors: `UsageError`, `StorageError`."""
        check_target(self.out)
        return self._told(self._write(None))

    def run(self) -> dict[str, Any]:
        """Write it whole, or leave nothing. Errors: `UsageError`, also where no row is left; `StorageError`."""
        check_target(self.out)
        with fresh_folder(self.out) as folder:
            told = self._told(self._write(folder))
            if not told["written"]:
                left = ", ".join(f"{reason} {n}" for reason, n in told["left_out"].items())
                raise UsageError(f"nothing is left to export as {self.format}: rows left out: {left or 'none'}")
            write_beside(told, self.source.runs, folder)
        return told

    def _write(self, folder: Path | None) -> Tally:
        tally = Tally()
        self.source.count_left_out(tally)
        self.work.write(self.source, folder, tally)
        return tally

    def _told(self, tally: Tally) -> dict[str, Any]:
        filters: Mapping[str, object] = self.source.filters
        return {
            "format": self.format,
            "settings": dict(self.settings),
            "filters": dict(filters),
            "limit": self.limit,
            **tally.as_dict(),
        }
