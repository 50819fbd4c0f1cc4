"""What is to be judged and how: one grader, one summarizer and one credit rule, with everything that they need.

Small and picklable; holds no key. Several graders side by side are several orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from grading.credit import CreditSettings
from grading.grade import Source, Weights
from grading.grader import GraderSettings, identified
from grading.summarizer import SummarizerSettings
from rollouts.calls.endpoint import CallSettings, Endpoint
from rollouts.calls.prices import PRICES, Price
from rollouts.errors import UsageError

HEURISTIC_VERSION = 1
EXPLICIT_VERSION = 1
NoModel = Literal["heuristic", "explicit"]
Table = Literal["grades", "summaries", "credit", "calls"]


@dataclass(frozen=True)
class GradingOrder:
    """`grader`: a model's settings, `heuristic`, `explicit` (people's feedback alone) or None; so for the others.

    `out` is the path or URI below which the run folder `run_id` lies. `repeats` asks the same question that often.
    `retry_ungraded_before`: a grade without score that was given before this time is asked for again, once;
    `retry_degraded_before`: so is a summary entry without one.
    `endpoint`, `calls` and `prices` serve grader and summarizer alike.
    """

    run_id: str
    out: str
    grader: GraderSettings | NoModel | None = None
    summarizer: SummarizerSettings | None = None
    credit: CreditSettings | None = None
    weights: Weights = field(default_factory=Weights)
    repeats: int = 1
    retry_ungraded_before: datetime | None = None
    retry_degraded_before: datetime | None = None
    endpoint: Endpoint | None = None
    calls: CallSettings = field(default_factory=CallSettings)
    prices: Mapping[str, Price] = field(default_factory=lambda: PRICES)

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise UsageError(f"repeat {self.repeats}: must be 1 or more")
        if self.uses_model and self.endpoint is None:
            raise UsageError("a model is asked for and no endpoint is known: set OPENAI_BASE_URL or --base-url")
        if self.credit is not None and self.grader is None:
            raise UsageError("credit needs a grader: it spreads the grade of an episode")
        if isinstance(self.grader, GraderSettings) and self.grader.reads == "summaries" and not self.reads_id:
            raise UsageError("a grader that reads summaries needs to know whose (summarizer_id)")
        if self.credit is not None and self.credit.rule.name == "summary" and self.summarizer is None:
            raise UsageError("credit rule 'summary' needs a summarizer: its scores say what a key step was")

    @property
    def source(self) -> Source | None:
        """Who judges: the name that goes with every number."""
        if self.grader is None or isinstance(self.grader, str):
            return self.grader
        return "llm"

    @property
    def grader_id(self) -> str | None:
        """The folder name below `grades/`, and below `calls/`."""
        if isinstance(self.grader, str):
            return identified(self.grader, _without_model(self.grader))
        return self.grader.grader_id if self.grader else None

    @property
    def summarizer_id(self) -> str | None:
        """The folder name below `summaries/`, and below `calls/`."""
        return self.summarizer.summarizer_id if self.summarizer else None

    @property
    def reads_id(self) -> str | None:
        """The summarizer whose entries the grader reads; None where it reads none."""
        if isinstance(self.grader, GraderSettings) and self.grader.reads == "summaries":
            return self.grader.summarizer_id
        return None

    @property
    def credit_id(self) -> str | None:
        """The folder name below `credit/`."""
        return identified(f"{self.source}-{self.credit.rule}", self._credit_identity()) if self.credit else None

    @property
    def uses_model(self) -> bool:
        return self.source == "llm" or self.summarizer is not None

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are asked, for `require_prices`."""
        settings = (self.grader, self.summarizer)
        return tuple(s.model for s in settings if isinstance(s, GraderSettings | SummarizerSettings))

    def identities(self) -> dict[str, dict[str, Any]]:
        """Table → the whole text behind the id of its folder. Weights are in that of `credit` alone."""
        found: dict[str, dict[str, Any]] = {}
        if isinstance(self.grader, GraderSettings):
            found["grades"] = self.grader.identity()
        elif self.grader is not None:
            found["grades"] = _without_model(self.grader)
        if self.summarizer is not None:
            found["summaries"] = self.summarizer.identity()
        if self.credit is not None:
            found["credit"] = self._credit_identity()
        return found

    def folders(self) -> tuple[tuple[Table, str, dict[str, Any]], ...]:
        """(table, id, the text behind the id) of each folder that the order writes to."""
        of = self.identities()
        found: list[tuple[Table, str, dict[str, Any]]] = []
        if self.grader_id is not None:
            found.append(("grades", self.grader_id, of["grades"]))
        if self.summarizer_id is not None:
            found += [
                ("summaries", self.summarizer_id, of["summaries"]),
                ("calls", self.summarizer_id, of["summaries"]),
            ]
        if self.source == "llm":
            found.append(("calls", str(self.grader_id), of["grades"]))
        if self.credit_id is not None:
            found.append(("credit", self.credit_id, of["credit"]))
        return tuple(found)

    def _credit_identity(self) -> dict[str, Any]:
        assert self.credit is not None
        by_summary = self.credit.rule.name == "summary"
        return {
            "kind": "credit",
            "grader_id": self.grader_id,
            "source": self.source,
            "weights": asdict(self.weights),
            "gamma": self.credit.gamma,
            "rule": str(self.credit.rule),
            "summarizer_id": self.summarizer_id if by_summary else None,
        }


def _without_model(kind: NoModel) -> dict[str, Any]:
    """What the id of such a grader stands for: the version changes with its formula."""
    return {"kind": kind, "version": HEURISTIC_VERSION if kind == "heuristic" else EXPLICIT_VERSION}
