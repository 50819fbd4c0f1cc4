"""`rollouts compare`: policies of runs on the same seeds, and how sure their differences are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from grading.compared import side_measures
from grading.evidence import weights_of
from rollouts.commands.console import wide_console
from rollouts.comparison.choosing import Side, contests, leaderboards, split
from rollouts.comparison.contest import Contest, Margin, Verdict, judge
from rollouts.comparison.leaderboard import Leaderboard
from rollouts.comparison.played import played_groups
from rollouts.comparison.table import contest_tables, leaderboard_tables, notes
from rollouts.errors import UsageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import read_manifest
from rollouts.run.location import find_run
from rollouts.settings import unknown
from rollouts.statistics.library import scipy_stats


def compare(
    *runs: str,
    fail_if_worse: Annotated[str | None, Parameter(name="--fail-if-worse")] = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Compare what policies played on the same scenarios and seeds: two as A and B, several as a leaderboard.

    Episodes are paired by scenario, seed and index; those that have no pair are named. Needs the extra `report`.

    Parameters
    ----------
    runs
        Folders of runs: paths, URIs, or ids alone under ./runs; RUN:POLICY for one policy of a run. Without a policy,
        policies of one name are compared; of a single run all its policies.
    fail_if_worse
        METRIC:MARGIN, such as kills:1: exit 1 where B is shown to be worse than A by more than that (the whole 95 %
        interval lies beyond), and where fewer than two pairs can show nothing.
    as_json
        One JSON object.
    """
    scipy_stats()
    margin = None if fail_if_worse is None else Margin.parse(fail_if_worse)
    sides = _sides(runs)
    if len(sides) == 2:
        found, alone = contests(*sides)
        verdicts = [] if margin is None else judge(found, margin)
        _tell_contests(found, alone, verdicts, as_json)
        return 1 if any(verdict.fails for verdict in verdicts) else 0
    if margin is not None:
        raise UsageError(f"--fail-if-worse compares two, B with A: {len(sides)} are given")
    boards, alone = leaderboards(sides)
    if not boards:
        raise UsageError("these runs have no scenario and rubric in common")
    _tell_boards(boards, alone, as_json)
    return 0


def _sides(runs: Sequence[str]) -> list[Side]:
    """Errors: `UsageError` where fewer than two policies are named."""
    opened = cache(lambda named: CommittedRun.open(find_run(named)))
    sides = [_side(given, opened) for given in runs]
    if len(sides) == 1:
        (side,) = sides
        sides = [Side(f"{side.given}:{policy}", policy, tuple(side.of(policy))) for policy in side.policies]
    if len(sides) < 2:
        raise UsageError("there is nothing to compare: name two runs, or RUN:POLICY twice")
    return sides


def _side(given: str, opened: Any) -> Side:
    named, policy = split(given, _is_run)
    run: CommittedRun = opened(named)
    there = list(dict.fromkeys(unit.policy for unit in run.plan))
    if policy is not None and policy not in there:
        raise unknown(f'policy of run "{named}"', policy, there)
    weights = weights_of(read_manifest(run) or {})
    groups = played_groups(run, named, [policy] if policy else there, side_measures(weights))
    return Side(given, policy, tuple(groups))


def _is_run(named: str) -> bool:
    try:
        folder = find_run(named)
    except UsageError:
        return False
    return folder.started()


def _tell_contests(found: Sequence[Contest], alone: Sequence[str], verdicts: Sequence[Verdict], as_json: bool) -> None:
    if as_json:
        told = {
            "comparisons": [each.as_dict() for each in found],
            "without_opponent": list(alone),
            "fail_if_worse": [verdict.as_dict() for verdict in verdicts],
        }
        print(json.dumps(told, allow_nan=False))
        return
    console = wide_console()
    for each in found:
        for shown in contest_tables(each):
            console.print(shown, soft_wrap=isinstance(shown, Text))
        console.print()
    policies = [side.facts.policy for each in found for side in (each.first, each.second)]
    for line in (*alone, *notes(policies), *map(str, verdicts)):
        console.print(Text(line), soft_wrap=True)


def _tell_boards(boards: Sequence[Leaderboard], alone: Sequence[str], as_json: bool) -> None:
    if as_json:
        told = {"leaderboards": [board.as_dict() for board in boards], "without_opponent": list(alone)}
        print(json.dumps(told, allow_nan=False))
        return
    console = wide_console()
    for board in boards:
        for shown in leaderboard_tables(board):
            console.print(shown, soft_wrap=isinstance(shown, Text))
    policies = [line.group.facts.policy for board in boards for line in board.lines]
    for line in (*alone, *notes(policies)):
        console.print(Text(line), soft_wrap=True)
