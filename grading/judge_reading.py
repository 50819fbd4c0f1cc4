"""A run's judges and outcomes, read for its judge card."""

from __future__ import annotations

import json
from collections.abc import Mapping

from grading.evidence import GraderGrades, but_presentation, completed_episodes, read_graders
from grading.grade import Weights
from grading.heuristic import goal_between
from grading.judge_card import judge_card
from grading.judge_records import Judge, JudgeCard, Outcome
from grading.played import baseline_of
from rollouts.evidence.committed_run import EPISODES, CommittedRun
from rollouts.shards.reading import read_table
from rollouts.shards.writing import shard_name


def read_judge_card(run: CommittedRun, weights: Weights) -> JudgeCard:
    """From the committed tables alone, R under `weights`. Errors: `StorageError`; `UsageError` without scipy."""
    completed = completed_episodes(run)
    judges = [_judge(grader) for grader in read_graders(run, completed)]
    return judge_card(judges, _outcomes(run, completed), weights)


def _judge(grader: GraderGrades) -> Judge:
    identity = grader.identity
    kin = json.dumps(but_presentation(grader), sort_keys=True)
    return Judge(
        grader.grader_id, grader.source, identity.get("model"), identity.get("presentation"), kin, grader.grades
    )


def _outcomes(run: CommittedRun, completed: Mapping[str, tuple[str, str, str]]) -> dict[str, Outcome]:
    metrics = {}
    for unit in run.units():
        rows = read_table(run.storage, run.path(EPISODES, shard_name(unit.part)), ("episode_id", "metric")).to_pylist()
        metrics.update(
            {row["episode_id"]: row["metric"] for row in rows if run.latest[row["episode_id"]] == unit.number}
        )
    return {
        key: _outcome(run, scenario, metrics[key])
        for key, (scenario, _, _) in completed.items()
        if metrics[key] is not None
    }


def _outcome(run: CommittedRun, scenario: str, metric: float) -> Outcome:
    baseline = baseline_of(run.record["scenarios"][scenario])
    return Outcome(scenario, metric, None if baseline is None else goal_between(metric, baseline))
