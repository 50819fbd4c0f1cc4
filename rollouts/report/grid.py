"""A table as texts: for the page and for Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; from the `numbers_from`-th column on they are numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers_from: int
