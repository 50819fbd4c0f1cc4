"""How plots look, and from a drawn figure to its files. Texts are near black: there the page puts its own colour."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

INK = "#010101"
COLOURS = ("#3b7dd8", "#d2691e", "#2e9960", "#a05bd0", "#c9485b", "#1f97a5", "#8a7a2f", "#7d8590")
"""Three to one and better against white and against the page's dark ground."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
WIDTH, HEIGHT = 5.0, 3.4
_STYLE = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "axes.titlelocation": "left",
    "figure.dpi": 160,
    "font.size": 9,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "legend.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Plot:
    """One picture: `name` of its files, `alt` says in words what it shows, `note` what has to stand under it."""

    name: str
    title: str
    alt: str
    svg: str
    png: bytes
    note: str = ""

    @property
    def inline(self) -> str:
        """The SVG for a page: its texts in the page's colour, its ids its own."""
        body = self.svg[self.svg.index("<svg") :]
        body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
        body = re.sub(r'\bid="', f'id="{self.name}-', body)
        body = re.sub(r"(url\(|href=\")#", rf"\1#{self.name}-", body)
        return body.replace(INK, "currentColor")


@dataclass(frozen=True)
class Sketch:
    """A plot before it is drawn: `draw` fills the axes of a figure."""

    name: str
    title: str
    alt: str
    draw: Callable[[Any], None]
    note: str = ""
    height: float = HEIGHT


def finished(sketch: Sketch) -> Plot:
    """Draw it. Needs matplotlib and no display."""
    with _styled():
        figure = Figure(figsize=(WIDTH, sketch.height), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(sketch.title)
        sketch.draw(axes)
        return Plot(sketch.name, sketch.title, sketch.alt, _svg(figure), _png(figure), sketch.note)


@contextmanager
def _styled() -> Iterator[None]:
    with mpl.rc_context(_STYLE):
        yield


def _svg(figure: Any) -> str:
    file = io.StringIO()
    nothing: Mapping[str, None] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return file.getvalue()


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def legend(axes: Any, columns: int = 2) -> None:
    """Below the plot, where it hides nothing; none for a single series."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        axes.figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def error_bar(axes: Any, x: float, estimate: Any, colour: str, marker: str = "o") -> None:
    """An estimate as a point with its interval, where it has one, and without where it has none."""
    found = estimate.interval
    bars = None if found is None else [[estimate.value - found.low], [found.high - estimate.value]]
    axes.errorbar([x], [estimate.value], yerr=bars, fmt=marker, color=colour, capsize=3, markersize=5)
