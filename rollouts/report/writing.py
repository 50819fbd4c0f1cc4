"""A report's files: `report.html`, `report.md` and, in `report_files`, each plot as SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouts.errors import UsageError
from rollouts.report.embedding import Embedded, embed
from rollouts.report.markdown import render_markdown
from rollouts.report.page import render_page
from rollouts.report.plots.drawing import Plot
from rollouts.report.report import make_report
from rollouts.report.reported_run import ReportedRun
from rollouts.store.storage import Storage, open_storage

NAME = "report.html"
NOTHING_EMBEDDED = Embedded({"runs": [], "groups": [], "credits": [], "summarizers": [], "episodes": []}, (), ())
MEGABYTE = 1_000_000
_MARGIN = 20_000
"""For the ids around what is embedded, and for characters that are longer in the page than in JSON."""


@dataclass(frozen=True)
class Place:
    """Where a report goes: a file `name` in a `folder` of a storage; its plots beside it."""

    storage: Storage
    folder: str
    name: str = NAME

    @classmethod
    def at(cls, out: Path) -> Place:
        """Errors: `UsageError` where that can be no file of a report."""
        path = out.expanduser()
        if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
            raise UsageError(f'--out "{out}": give the name of an HTML file, such as report.html')
        path = path.parent.resolve() / path.name
        return cls(open_storage(path.parent), "", path.name)

    @property
    def files(self) -> str:
        """The folder of the plots, beside the page."""
        return f"{self.name.rpartition('.')[0]}_files"

    @property
    def markdown(self) -> str:
        return f"{self.name.rpartition('.')[0]}.md"

    def path(self, *parts: str) -> str:
        return "/".join(part for part in (self.folder, *parts) if part)

    def describe(self, *parts: str) -> str:
        return self.storage.describe(self.path(*parts))


@dataclass(frozen=True)
class Written:
    """What was written where; `page_bytes` is the page's size."""

    page: str
    markdown: str
    plots: tuple[str, ...]
    page_bytes: int
    left_out: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "page": self.page,
            "page_bytes": self.page_bytes,
            "markdown": self.markdown,
            "plots": list(self.plots),
            "left_out": list(self.left_out),
        }


def write_report(runs: Sequence[ReportedRun], place: Place, most_bytes: int) -> Written:
    """Write all of it, over what was there; the page has at most `most_bytes`. Errors: `StorageError`; `UsageError`
    where plots and tables alone are larger."""
    report = make_report(runs)
    without = len(render_page(report, NOTHING_EMBEDDED).encode())
    if without + _MARGIN > most_bytes:
        raise UsageError(
            f"--max-mb is {most_bytes / MEGABYTE:g}: plots and tables alone take {without / MEGABYTE:.1f} MB"
        )
    embedded = embed(runs, most_bytes - without - _MARGIN)
    page = render_page(report, embedded).encode()
    files = {
        place.path(place.name): page,
        place.path(place.markdown): render_markdown(report, place.files).encode(errors="replace"),
    }
    pictures = {place.path(place.files, name): data for name, data in _pictures(report.plots)}
    for path, data in {**pictures, **files}.items():
        place.storage.write_bytes(path, data)
    return Written(
        page=place.describe(place.name),
        markdown=place.describe(place.markdown),
        plots=tuple(map(place.storage.describe, pictures)),
        page_bytes=len(page),
        left_out=embedded.left_out,
    )


def _pictures(plots: Sequence[Plot]) -> Iterator[tuple[str, bytes]]:
    for plot in plots:
        yield f"{plot.name}.svg", plot.svg.encode()
        yield f"{plot.name}.png", plot.png
