"""The final table for people, made from a manifest's result blocks. Knows nothing of how they came about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouts.evidence.grading_table import grading_lines, grading_tables
from rollouts.evidence.own_answers import much_not_its_own
from rollouts.naming import counted

WIDTH_WITHOUT_TERMINAL = 140
SELF_CHECK = "* the rule's own agreement with itself: a self-check, not ranked"
RATE_NOTE = "decisions/s: of one actor while it plays"
WARNING = "WARNING:"
_NONE = "-"
_AFTER_METRIC = ("sd", "min", "max", "n", "agreement", "Brier", "ECE", "out of schema", "decisions/s")
_OF_METRIC = 5
Group = Mapping[str, Any]


def results_tables(manifest: Mapping[str, Any], narrow: bool = False) -> list[Table]:
    """A table a scenario, a line a rubric and policy, in the plan's order (nothing is ranked).

    `narrow`: two tables a scenario instead, the metric's and the rule's, for a terminal of 80 columns.
    """
    lines = list(zip(manifest["results"], manifest["coverage"]["groups"], strict=True))
    scenarios = dict.fromkeys(block["scenario"] for block, _ in lines)
    return [
        table
        for scenario in scenarios
        for table in _scenario_tables(manifest, scenario, [x for x in lines if x[0]["scenario"] == scenario], narrow)
    ]


def _scenario_tables(
    manifest: Mapping[str, Any], scenario: str, lines: Sequence[tuple[Group, Group]], narrow: bool
) -> Iterator[Table]:
    metric = manifest["scenarios"][scenario]["metric"]
    headings = (f"{metric['name']} mean", *_AFTER_METRIC)
    rows = [result_cells(block, coverage, metric["name"]) for block, coverage in lines]
    title = f"{scenario}: {metric['name']} ({metric['unit']})"
    if not narrow:
        yield _table(title, headings, rows)
        return
    yield _table(title, headings[:_OF_METRIC], [row[: 2 + _OF_METRIC] for row in rows], box.SIMPLE_HEAD)
    of_rule = [(*row[:2], *row[2 + _OF_METRIC :]) for row in rows]
    yield _table(f"{scenario}: the policy and the rule", headings[_OF_METRIC:], of_rule, box.SIMPLE_HEAD)


def _table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], lines: box.Box = box.HEAVY_HEAD
) -> Table:
    table = Table(title=Text(title), title_justify="left", box=lines)
    table.add_column("rubric", no_wrap=True)
    table.add_column("policy", overflow="fold")
    for heading in headings:
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def result_cells(block: Group, coverage: Group, metric: str) -> tuple[str, ...]:
    """One line of numbers: rubric, policy, mean, sd, min, max, n, agreement, Brier, ECE, out of schema, decisions/s."""
    numbers = block[f"{metric}_aggregate"]
    agreement = block.get("rubric_agreement", {})
    mark = "*" if is_self_check(block) and agreement else ""
    return (
        block["rubric"],
        block["policy"],
        _number(numbers["mean"], 3),
        *(_number(numbers[key]) for key in ("sd", "min", "max")),
        _share(numbers["n_episodes"], coverage["planned"]),
        _number(agreement.get("agreement"), 4) + mark,
        _number(agreement.get("brier"), 4),
        _number(agreement.get("ece"), 4),
        f"{block['n_out_of_schema']:,} of {block['n_decisions']:,}",
        _number(coverage["decisions_per_s_of_play"], 0),
    )


def is_self_check(block: Group) -> bool:
    """Is this the teacher playing? Then its agreement only says that the bookkeeping works."""
    return bool(block["policy"] == "oracle")


def print_results(manifest: Mapping[str, Any], console: Console) -> None:
    """The tables, what is missing and why, and where everything is."""
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_WITHOUT_TERMINAL)
    wide, unbounded = results_tables(manifest), console.options.update(max_width=1_000)
    narrow = any(console.measure(table, options=unbounded).maximum > console.width for table in wide)
    for table in (*(results_tables(manifest, narrow) if narrow else wide), *grading_tables(manifest)):
        console.print(table)
    for found in much_not_its_own(manifest):
        console.print(Text(f"{WARNING} {found}", style="bold red"), soft_wrap=True)
    for line in (*notes(manifest), *coverage_lines(manifest), *grading_lines(manifest)):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(f"data:     {manifest['location']}"), soft_wrap=True)
    console.print(Text(f"manifest: {manifest['location']}/manifest.json"), soft_wrap=True)


def notes(manifest: Mapping[str, Any]) -> list[str]:
    """What must stand under the numbers: the meaning of agreement first."""
    agreeing = [block for block in manifest["results"] if "rubric_agreement" in block]
    agreements = [block["rubric_agreement"] for block in agreeing]
    lines = list(dict.fromkeys(str(agreement["note"]) for agreement in agreements))
    if any(is_self_check(block) for block in manifest["results"]):
        lines.append(SELF_CHECK)
    unusable = sum(agreement["n"] - agreement["n_usable"] for agreement in agreements)
    if unusable:
        lines.append(f"Brier and ECE leave out {counted(unusable, 'decision')} without usable probabilities")
    unasked = sum(block["n_decisions"] - block["rubric_agreement"]["n"] for block in agreeing)
    if unasked:
        lines.append(
            f"agreement, Brier and ECE leave out {counted(unasked, 'decision')} for which the policy was not asked"
        )
    return [*lines, *_real_time_note(manifest["configuration"]), RATE_NOTE]


def _real_time_note(configuration: Mapping[str, Any]) -> list[str]:
    """Numbers of a game that does not wait compare with no others."""
    if (meanwhile := configuration.get("realtime")) is None:
        return []
    latency = configuration["latency_ms"]
    long = "as measured" if latency is None else f"{latency:g} ms a decision, as set"
    return [f"real time ({meanwhile}): the game went on while the policy thought, {long}"]


def coverage_lines(manifest: Mapping[str, Any]) -> list[str]:
    """Completed n of planned m, and a line a cause of failure."""
    coverage = manifest["coverage"]
    parts = [f"{coverage['completed']:,} of {counted(coverage['planned'], 'episode')} completed"]
    parts += [f"{coverage[key]:,} {key}" for key in ("failed", "owed") if coverage[key]]
    return [", ".join(parts), *(_failure_line(failure) for failure in manifest["failures"])]


def _failure_line(failure: Mapping[str, Any]) -> str:
    where = f"{failure['scenario']}/{failure['rubric']}/{failure['policy']}"
    return f"failed: {failure['n']} in {where}, stage {failure['stage']}: {failure['cause']}"


def _share(n: int, planned: int) -> str:
    return f"{n:,}" if n == planned else f"{n:,} of {planned:,}"


def _number(value: float | None, digits: int = 2) -> str:
    return _NONE if value is None else f"{value:,.{digits}f}"
