"""What grades and calls add to a comparison of policies, episode by episode: R, and what a policy's calls took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grading.evidence import completed_episodes
from grading.grade import Weights, r_human
from grading.side_reading import newest_grades, side_rows
from rollouts.comparison.played import COST, TOKENS, Extra, Ratio
from rollouts.evidence.committed_run import CommittedRun
from rollouts.run.side_folder import SideFolder

_CALL = ("episode_id", "kind", "cost_usd", "tokens_in", "tokens_out")
_DECIDE = "decide"


def side_measures(weights: Weights) -> Extra:
    """Episode id → R under `weights`, a measure a grader; cost and tokens of the policy's calls, where known."""
    return lambda run: _measures(run, weights)


def _measures(run: CommittedRun, weights: Weights) -> dict[str, dict[str, Ratio]]:
    found: dict[str, dict[str, Ratio]] = {}
    for episode_id, name, value in (*_grades(run, weights), *_calls(run)):
        measures = found.setdefault(episode_id, {})
        so_far = measures.get(name, Ratio(0.0, 0.0))
        below = 1.0 if name in (COST, TOKENS) else so_far.below + 1
        measures[name] = Ratio(so_far.above + value, below)
    return found


def _grades(run: CommittedRun, weights: Weights) -> Iterator[tuple[str, str, float]]:
    """Of each repeat. The source is in the name: R of different sources is never pooled."""
    side, completed = SideFolder(run.folder), completed_episodes(run)
    for grader_id in side.ids("grades"):
        newest, _ = newest_grades(run, grader_id, completed)
        for (episode_id, _), grade in newest.items():
            if (r := r_human(grade, weights)) is not None:
                yield episode_id, _name(grade.source, grader_id), r


def _name(source: str, grader_id: str) -> str:
    """With the source in it, once."""
    return f"R ({grader_id})" if grader_id.startswith(f"{source}-") else f"R ({source} {grader_id})"


def _calls(run: CommittedRun) -> Iterator[tuple[str, str, float]]:
    """Every call for an episode's decisions counts, those of tries that came to nothing too: they were paid."""
    for who in SideFolder(run.folder).ids("calls"):
        for row in side_rows(run, "calls", who, _CALL):
            if row["kind"] == _DECIDE:
                yield from _of_call(row)


def _of_call(row: Mapping[str, object]) -> Iterator[tuple[str, str, float]]:
    key, cost = str(row["episode_id"]), row["cost_usd"]
    tokens = [row[name] for name in ("tokens_in", "tokens_out")]
    if isinstance(cost, float):
        yield key, COST, cost
    if any(isinstance(n, int) for n in tokens):
        yield key, TOKENS, float(sum(n for n in tokens if isinstance(n, int)))
