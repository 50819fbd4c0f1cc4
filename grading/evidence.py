"""The manifest's section on grading: everything anew from the committed side tables, source by source.

A mean never stands without its coverage; R is computed here, from the stored axes and the weights asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, groupby
from operator import itemgetter
from typing import Any

from grading.grade import Grade, Weights
from grading.side_reading import feedback_rows, newest_grades, side_rows
from grading.side_rows import newest_entries
from grading.side_rows import newest_grades as newest_rows
from grading.tally import GradeTally, disagreement, repeat_spread, tally
from rollouts.evidence.committed_run import CommittedRun
from rollouts.metrics import percentile
from rollouts.run.side_folder import SideFolder

SECTION = "grading"
Group = tuple[str, str, str]
_ROLES = {"grade": "grader", "summarize": "summarizer", "decide": "policy"}
_GRADE_KEYS = ("episode_id", "grading", "repeat", "status")
_ENTRY_KEYS = ("unit", "episode_id", "span", "status", "cause", "score")
_CALL_SUMS = ("tokens_in", "tokens_out", "tokens_cached")


def grading_section(weights: Weights) -> Callable[[CommittedRun], dict[str, Any]]:
    """What makes the section, for `make_manifest`: `{SECTION: grading_section(weights)}`."""
    return lambda run: make_section(run, weights)


def weights_of(manifest: Mapping[str, Any]) -> Weights:
    """The weights that a manifest's R was computed with; the usual ones where it has none."""
    found = (manifest.get(SECTION) or {}).get("weights")
    return Weights() if found is None else Weights(**found)


def make_section(run: CommittedRun, weights: Weights) -> dict[str, Any]:
    """Plain JSON values. Errors: `StorageError`."""
    side = SideFolder(run.folder)
    completed = completed_episodes(run)
    graders = read_graders(run, completed)
    return {
        "weights": asdict(weights),
        "graders": [grader.as_dict(weights) for grader in graders],
        "disagreements": _disagreements(graders, weights),
        "summarizers": [_summarizer(run, side, found, completed) for found in side.ids("summaries")],
        "credits": [_credit(run, side, found, completed) for found in side.ids("credit")],
        "calls": [_calls(run, who) for who in side.ids("calls")],
        "feedback": _feedback(run),
    }


def completed_episodes(run: CommittedRun) -> dict[str, Group]:
    """Id → group of every episode whose newest committed row is a completed one."""
    failed = {
        (failure.episode_id, number)
        for number, commit in run.folder.survey().committed.items()
        for failure in commit.failures
    }
    groups = {unit.number: (unit.scenario, unit.rubric, unit.policy) for unit in run.units()}
    return {key: groups[unit] for key, unit in run.latest.items() if (key, unit) not in failed}


def read_graders(run: CommittedRun, completed: Mapping[str, Group]) -> list[GraderGrades]:
    """Everybody who graded, with what counts of it. Errors: `StorageError`."""
    side = SideFolder(run.folder)
    return [GraderGrades.read(run, side, grader_id, completed) for grader_id in side.ids("grades")]


@dataclass(frozen=True)
class GraderGrades:
    """One grader's newest grades, by (episode id, repeat); `asked` is how many there should be of each episode."""

    grader_id: str
    identity: Mapping[str, Any]
    completed: Mapping[str, Group]
    grades: Mapping[tuple[str, int], Grade]
    gradings: int
    asked: int

    @classmethod
    def read(cls, run: CommittedRun, side: SideFolder, grader_id: str, completed: Mapping[str, Group]) -> GraderGrades:
        newest, highest = newest_grades(run, grader_id, completed)
        identity, asked = side.read_identity("grades", grader_id), side.asked(grader_id)
        return cls(grader_id, identity, completed, newest, highest + 1, asked)

    @property
    def source(self) -> str:
        return str(self.identity["kind"])

    @property
    def repeats(self) -> int:
        return max(self.asked, 1 + max((repeat for _, repeat in self.grades), default=0))

    def as_dict(self, weights: Weights) -> dict[str, Any]:
        groups = Counter(self.completed.values())
        return {
            "grader_id": self.grader_id,
            "source": self.source,
            "model": self.identity.get("model"),
            **_settings(self.identity),
            "weights": asdict(weights),
            "gradings": self.gradings,
            "repeats": self.repeats,
            "repeat_spread": asdict(repeat_spread(self.grades, weights)),
            **self._numbers(self.grades.values(), len(self.completed), weights),
            "groups": [{**_named(group), **self._of_group(group, n, weights)} for group, n in groups.items()],
        }

    def _of_group(self, group: Group, episodes: int, weights: Weights) -> dict[str, Any]:
        own = [grade for (key, _), grade in self.grades.items() if self.completed[key] == group]
        return self._numbers(own, episodes, weights)

    def _numbers(self, grades: Iterable[Grade], episodes: int, weights: Weights) -> dict[str, Any]:
        """`of`: the gradings that there should be, one a completed episode and repeat; `owed` are not there yet."""
        tallies = tally(grades, weights)
        assert len(tallies) <= 1, "one grader has one source"
        of = episodes * self.repeats
        return _told(tallies[0] if tallies else None, of)


def _settings(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What tells graders of one model apart; nulls for a grader that is none."""
    prompt = identity.get("prompt") or {}
    return {
        "language": prompt.get("language"),
        "reads": identity.get("reads"),
        "summarizer_id": identity.get("summarizer_id"),
        "presentation": identity.get("presentation"),
        "most_characters": (identity.get("caps") or {}).get("whole"),
        "prompt_id": prompt.get("id"),
        "prompt_sha256": prompt.get("sha256"),
    }


_MEANS = ("mean_r", "mean_goal", "mean_process", "mean_satisfaction")
_COUNTS = ("labels_compared", "labels_against", "n_cut", "characters_cut")


def _told(found: GradeTally | None, of: int) -> dict[str, Any]:
    n, graded = (found.n, found.n_graded) if found else (0, 0)
    return {
        **{key: getattr(found, key, None) for key in _MEANS},
        "graded": graded,
        "of": of,
        "ungraded": n - graded,
        "owed": of - n,
        "ungraded_by_cause": dict(sorted(found.ungraded_by_cause.items())) if found else {},
        "endpoint_error": found.endpoint_error if found else None,
        **{key: getattr(found, key, 0) for key in _COUNTS},
    }


def _named(group: Group) -> dict[str, str]:
    return dict(zip(("scenario", "rubric", "policy"), group, strict=True))


def _disagreements(graders: Sequence[GraderGrades], weights: Weights) -> list[dict[str, Any]]:
    """Graders that differ in presentation alone: how far order and length sway the judge."""
    return [
        {
            "first": a.grader_id,
            "second": b.grader_id,
            "first_presentation": a.identity["presentation"],
            "second_presentation": b.identity["presentation"],
            **_compared(a, b, weights),
        }
        for a, b in combinations([g for g in graders if g.source == "llm"], 2)
        if but_presentation(a) == but_presentation(b)
    ]


def but_presentation(grader: GraderGrades) -> dict[str, Any]:
    """All that makes the grader but the order and length of what it is shown."""
    return {key: value for key, value in grader.identity.items() if key != "presentation"}


def _compared(a: GraderGrades, b: GraderGrades, weights: Weights) -> dict[str, Any]:
    both = sorted(a.grades.keys() & b.grades.keys())
    return asdict(disagreement([a.grades[key] for key in both], [b.grades[key] for key in both], weights))


def _summarizer(
    run: CommittedRun, side: SideFolder, summarizer_id: str, completed: Mapping[str, Group]
) -> dict[str, Any]:
    identity = side.read_identity("summaries", summarizer_id)
    seen, entries, scores, causes = set[str](), 0, list[float](), Counter[str]()
    for row in _entries(run, summarizer_id):
        if row["episode_id"] in completed:
            seen.add(row["episode_id"])
            entries += 1
            scores += _known(row["score"])
            causes.update([str(row["cause"])] if row["status"] == "degraded" else [])
    return {
        "summarizer_id": summarizer_id,
        "source": "llm",
        "model": identity.get("model"),
        "entries": entries,
        "episodes": len(seen),
        "of": len(completed),
        "degraded": causes.total(),
        "degraded_by_cause": dict(sorted(causes.items())),
        "mean_score": math.fsum(scores) / len(scores) if scores else None,
    }


def _entries(run: CommittedRun, summarizer_id: str) -> Iterator[Mapping[str, Any]]:
    """Those that count, of one unit after the other: of one that was asked for again only the last."""
    rows = side_rows(run, "summaries", summarizer_id, _ENTRY_KEYS)
    for _, of_unit in groupby(rows, itemgetter("unit")):
        yield from newest_entries(of_unit).values()


def _credit(run: CommittedRun, side: SideFolder, credit_id: str, completed: Mapping[str, Group]) -> dict[str, Any]:
    """Credit counts where it was given for the newest grade; what an older one left is out of date."""
    identity, newest = side.read_identity("credit", credit_id), dict[str, Counter[int]]()
    for row in side_rows(run, "credit", credit_id, ("episode_id", "grading")):
        if row["episode_id"] in completed:
            newest.setdefault(row["episode_id"], Counter())[row["grading"]] += 1
    grades = newest_rows(side_rows(run, "grades", identity["grader_id"], _GRADE_KEYS))
    current = [rows[max(rows)] for key, rows in newest.items() if _is_of(grades.get((key, 0)), max(rows))]
    return {
        "credit_id": credit_id,
        **{key: identity[key] for key in ("grader_id", "source", "rule", "gamma", "weights", "summarizer_id")},
        "rows": sum(current),
        "episodes": len(current),
        "of": len(completed),
        "without": len(completed) - len(current),
    }


def _is_of(grade: Mapping[str, Any] | None, grading: int) -> bool:
    return grade is not None and grade["status"] == "graded" and grade["grading"] == grading


@dataclass
class _CallTally:
    """Calls added up; a reply that was used again took no request, tokens or time."""

    calls: int = 0
    reused: int = 0
    tries: int = 0
    by_status: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)
    costs: list[float] = field(default_factory=list)
    unpriced: int = 0
    kinds: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    queue_ms: list[float] = field(default_factory=list)
    answer_ms: list[float] = field(default_factory=list)
    adjustments: Counter[str] = field(default_factory=Counter)

    def add(self, row: Mapping[str, Any]) -> None:
        self.kinds.add(_ROLES.get(row["kind"], row["kind"]))
        if row["reused_call_id"] is not None:
            self.reused += 1
            return
        self.calls += 1
        self.tries += row["tries"] or 0
        self.by_status[row["status"]] += 1
        if row["status"] in ("refused", "failed"):
            self.causes[str(row["error_kind"] or row["cause"])] += 1
        self.sums.update({key: row[key] or 0 for key in _CALL_SUMS})
        self.models |= {row["model"]} - {None}
        self._price(row)
        self.queue_ms += _known(row["queue_ms"])
        self.answer_ms += _known(row["answer_ms"])
        self.adjustments.update(row["adjustments"] or ())

    def _price(self, row: Mapping[str, Any]) -> None:
        if row["cost_usd"] is not None:
            self.costs.append(row["cost_usd"])
        elif row["tokens_in"] is not None:
            self.unpriced += 1


def _known(value: float | None) -> list[float]:
    return [] if value is None else [value]


def _calls(run: CommittedRun, who: str) -> dict[str, Any]:
    found = _CallTally()
    columns = (
        *("kind", "status", "cause", "error_kind", "reused_call_id", "tries", "model", "cost_usd"),
        *("queue_ms", "answer_ms"),
        *("adjustments", *_CALL_SUMS),
    )
    for row in side_rows(run, "calls", who, columns):
        found.add(row)
    return {
        "who": who,
        "kind": ", ".join(sorted(found.kinds)),
        "endpoints": list(SideFolder(run.folder).endpoints(who)),
        "calls": found.calls,
        "tries": found.tries,
        **{key: found.by_status[key] for key in ("validated", "answered", "refused", "failed", "abandoned")},
        "refused_or_failed_by_cause": dict(sorted(found.causes.items())),
        "cache_hits": found.reused,
        "models": sorted(found.models),
        **{key: found.sums[key] for key in _CALL_SUMS},
        "cost_usd": math.fsum(found.costs) if found.costs else None,
        "calls_without_price": found.unpriced,
        "queue_ms": _times(found.queue_ms),
        "answer_ms": _times(found.answer_ms),
        "adjustments": dict(sorted(found.adjustments.items())),
    }


def _times(values: list[float]) -> dict[str, float | None]:
    return {"p50": percentile(values, 50), "p95": percentile(values, 95)}


def _feedback(run: CommittedRun) -> dict[str, int]:
    ids = [row["episode_id"] for row in feedback_rows(run, ("episode_id",))]
    return {"rows": len(ids), "episodes": len(set(ids))}
