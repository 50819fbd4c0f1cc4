"""Contests and leaderboards as people read them. Knows nothing of how they came about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from rollouts.comparison.contest import FIRST, SECOND, Contest, Measured, unpaired_lines
from rollouts.comparison.leaderboard import Leaderboard, Line
from rollouts.comparison.played import better
from rollouts.evidence.table import SELF_CHECK
from rollouts.metrics import AGREEMENT_NOTE
from rollouts.naming import counted
from rollouts.settings import one_line
from rollouts.statistics.estimates import Estimate

MOST_PAIRS = 40
INTERVALS = (
    "[ ]: 95 % bootstrap over whole episodes (of differences: over pairs), never over decisions; undefined below two, "
    "and where all are equal; with fewer than some 20 they are a little too short, and p is not; ↓: less is better"
)
TESTS = (
    "p: two-sided permutation within pairs, for each measure alone; detectable: the difference that so many pairs "
    "would have shown with a power of 80 % at 5 %"
)
_NONE = "-"


def contest_tables(found: Contest) -> Iterator[RenderableType]:
    """The pairs' metric, then all measures, then what must stand beside them."""
    yield Text(f"{found.title}: {FIRST} = {found.first.name}, {SECOND} = {found.second.name}", style="bold")
    yield _pairs(found)
    yield _measures(found)
    yield from map(Text, contest_lines(found))


def _pairs(found: Contest) -> Table:
    several = len({seed for seed, _ in found.pairs}) < len(found.pairs)
    table = _table(f"{found.first.metric} ({found.first.unit}), seed by seed", "seed" + ("/episode" if several else ""))
    for heading in (FIRST, SECOND, f"{SECOND} - {FIRST}"):
        table.add_column(heading, justify="right", no_wrap=True)
    for (seed, index), a, b in list(found.rows())[:MOST_PAIRS]:
        apart = _NONE if a is None or b is None else f"{b - a:+,.2f}"
        name = f"{seed}/{index}" if several else str(seed)
        table.add_row(name, *(_NONE if value is None else f"{value:,.2f}" for value in (a, b)), apart)
    if (more := len(found.pairs) - MOST_PAIRS) > 0:
        table.caption = f"and {counted(more, 'more pair')}: --json has them all"
    return table


def _measures(found: Contest) -> Table:
    table = _table("B less A, over the pairs", "measure")
    for heading in (FIRST, SECOND, f"{SECOND} - {FIRST}", "pairs", "p", "detectable"):
        table.add_column(heading, justify="right", overflow="fold")
    for measured in found.measures:
        digits = 2 if measured.name == found.first.metric else 3
        table.add_row(Text(_shown(measured.name)), *map(Text, _cells(measured, digits)))
    return table


def _shown(measure: str) -> str:
    """With a mark where less is better."""
    return f"{measure} ↓" if better(measure) == "lower" else measure


def _cells(measured: Measured, digits: int) -> tuple[str, ...]:
    found = measured.difference
    return (
        found.first.told(digits),
        found.second.told(digits),
        found.mean.told(digits, "+"),
        f"{found.mean.n:,}",
        _NONE if found.p_value is None else f"{found.p_value:.4f}",
        _NONE if found.detectable is None else f"{found.detectable:,.{digits}f}",
    )


def contest_lines(found: Contest) -> Iterator[str]:
    """Who is ahead, what has no pair, what else differs, calibration."""
    if found.metric is not None:
        yield _ahead(found.metric)
    for name, side in ((FIRST, found.first), (SECOND, found.second)):
        ece = side.calibration.ece
        calibrated = "" if ece is None else f"; ECE {ece:.4f} over {counted(side.calibration.n, 'decision')}"
        yield f"{name}: {side.coverage}{calibrated}"
    yield from unpaired_lines(found.unpaired)
    for name, (a, b) in found.differing_settings.items():
        yield one_line(f"not the same game: {name} is {a} in {FIRST}, {b} in {SECOND}", 300)


def _ahead(measured: Measured) -> str:
    """The winner, or that there is none to be seen."""
    found, n = measured.difference, counted(measured.difference.mean.n, "pair")
    if not found.mean.n:
        return f"{measured.name}: no pair, nothing to compare"
    told = f"B - A is {found.mean.told(2, '+')} over {n}"
    differing = f"{found.differing.told()} of the pairs differ"
    if not found.significant or not measured.gain:
        return f"{measured.name}: no difference is shown: {told}; {differing}"
    winner = SECOND if measured.gain > 0 else FIRST
    return f"{measured.name}: {winner} is better: {told}, p {found.p_value:.4f}; {differing}"


def leaderboard_tables(board: Leaderboard) -> Iterator[RenderableType]:
    """A line a policy, the best first."""
    n = counted(len(board.episodes), "episode")
    table = _table(f"{board.title}: {board.metric} ({board.unit}), over the {n} that all completed", "")
    table.add_column("policy of a run", overflow="fold")
    others = [name for name in dict.fromkeys(m for line in board.lines for m in line.estimates) if name != board.metric]
    for heading in (f"{board.metric} [95 %]", "less the leader's [95 %]", "p", "ECE"):
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for place, line in enumerate(board.lines, 1):
        table.add_row(str(place), Text(line.group.name), *map(Text, _line_cells(line)))
    yield table
    if others:
        yield _other_measures(board, others)
    yield from map(Text, unpaired_lines(board.unpaired))


def _line_cells(line: Line) -> tuple[str, ...]:
    behind, ece = line.behind, line.group.calibration.ece
    return (
        _told(line.metric),
        _NONE if behind is None else behind.mean.told(2, "+"),
        _NONE if behind is None or behind.p_value is None else f"{behind.p_value:.4f}",
        _NONE if ece is None else f"{ece:.4f}",
    )


def _other_measures(board: Leaderboard, names: Sequence[str]) -> Table:
    table = _table(f"{board.title}: what else was measured", "measure")
    for place, line in enumerate(board.lines, 1):
        table.add_column(Text(f"{place}: {line.group.name}"), justify="right", overflow="fold")
    for name in names:
        table.add_row(Text(_shown(name)), *(Text(_told(line.estimates.get(name), 3)) for line in board.lines))
    return table


def _told(found: Estimate | None, digits: int = 2) -> str:
    return _NONE if found is None else found.told(digits)


def _table(title: str, first: str) -> Table:
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, caption_justify="left")
    table.add_column(first, no_wrap=True)
    return table


def notes(policies: Sequence[str]) -> list[str]:
    """What must stand under all tables."""
    of_rule = [f"oracle: {SELF_CHECK[2:]}"] if "oracle" in policies else []
    return [INTERVALS, TESTS, AGREEMENT_NOTE, *of_rule]
