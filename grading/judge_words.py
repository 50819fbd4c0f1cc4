"""A judge card as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from grading.judge_records import SWAYS, Against, Agreeing, Consistency, JudgeCard, JudgeNumbers, Labels, Swayed
from rollouts.naming import counted
from rollouts.statistics.alpha import Alpha

NOTE = (
    "alpha: Krippendorff's, 1 agrees, 0 is chance; [ ]: 95 %, over episodes. An axis that is no nearer to the outcome "
    "than a constant says nothing about who played well. The heuristic's goal is the outcome itself."
)
HEADINGS = ("scenario", "", "episodes", "rank correlation", "distance", "a constant's", "better by")
TEXTS = 2
"""So many columns are texts, the others numbers."""


def card_lines(card: JudgeCard) -> Iterator[str]:
    """Judge by judge, then what several say together, then what sways them."""
    if not card.judges:
        yield "judge card: nobody graded this run"
        return
    usual = [judge for judge in card.judges if judge.presentation not in SWAYS]
    for judge in usual:
        yield from _judge_lines(judge)
    yield from map(_agreeing_line, card.agreements)
    yield from map(_sway_line, card.sways)
    for grader_id in (judge.grader_id for judge in usual if judge.source == "llm"):
        for presentation, by in SWAYS.items():
            if not any((sway.by, sway.first) == (by, grader_id) for sway in card.sways):
                yield f"{grader_id}, {by}: not known; grade once more with --presentation {presentation}"
    yield NOTE


def _judge_lines(judge: JudgeNumbers) -> Iterator[str]:
    name = f"{judge.source} {judge.grader_id}"
    yield f"{name}: graded {judge.graded:,} of {counted(judge.episodes, 'episode')}"
    if judge.consistency is not None:
        yield f"{name}, with itself: {_consistency(judge.consistency)}"
    elif judge.source == "llm":
        yield f"{name}, with itself: not known; grade once more with --repeat 2"
    yield from (f"{name}, {_labels(found)}" for found in judge.labels)


def against_tables(card: JudgeCard) -> Iterator[Table]:
    """For a terminal."""
    for title, rows in against_rows(card):
        table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD)
        for heading in HEADINGS:
            table.add_column(heading, justify="left" if heading in HEADINGS[:TEXTS] else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        yield table


def against_rows(card: JudgeCard) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Title and rows, under HEADINGS, of a table a judge, as it is usually shown things: its axes beside the outcome,
    and a constant beside them."""
    for judge in (judge for judge in card.judges if judge.presentation not in SWAYS):
        if judge.against:
            title = f"{judge.source} {judge.grader_id}: how near to the outcome"
            yield title, [_against_cells(found) for found in judge.against]


def _against_cells(found: Against) -> tuple[str, ...]:
    rank = "undefined" if found.rank_correlation is None else f"{found.rank_correlation:+.2f}"
    told = ((found.error, ""), (found.constant_error, ""), (found.better_by, "+"))
    distances = ("no baselines" if estimate is None else estimate.told(2, sign) for estimate, sign in told)
    return (found.scenario, found.axis, f"{found.n:,}", rank, *distances)


def _consistency(found: Consistency) -> str:
    return (
        f"mean |ΔR| {found.shift.told(3)}, labels differ {found.labels_differ.told(3)}, "
        f"alpha of R {_alpha(found.alpha_r)}, of labels {_alpha(found.alpha_label)}; "
        f"{counted(found.shift.n, 'episode')} graded more than once"
    )


def _labels(found: Labels) -> str:
    right, constant = found.right.told(), found.constant_right.told()
    return f"label as the outcome's in {found.scenario}: {right}, a constant's {constant}; {found.right.n:,} labels"


def _agreeing_line(found: Agreeing) -> str:
    alphas = ", ".join(f"{name} {_alpha(alpha)}" for name, alpha in found.alphas.items())
    differ = "" if found.differ is None else f"; differ on {found.differ.told()}"
    n = next(iter(found.alphas.values())).n
    return f"{' and '.join(found.graders)}: alpha of {alphas}{differ}; {counted(n, 'episode')} graded by two or more"


def _sway_line(found: Swayed) -> str:
    verdict = {True: "SWAYED", False: "not shown to be swayed", None: "cannot be told"}[found.swayed]
    noise = "not known" if found.noise is None else f"{found.noise:.2f}"
    p = "" if found.p_value is None else f", p {found.p_value:.4f}"
    return (
        f"{found.first}, {found.by}: {verdict}; differs on {found.differ.told()} of "
        f"{counted(found.differ.n, 'episode')} shown in another {found.by} (between repeats: {noise}), "
        f"R moves by {found.shift.told(3, '+')}{p}"
    )


def _alpha(found: Alpha) -> str:
    return "undefined" if found.value is None else f"{found.value:.2f}"
