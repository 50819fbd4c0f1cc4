"""Played runs to be judged, a model that answers without a network, and a driver that promotes what workers stage.

The scenario is the counting game from 4 + seed (seed 0: over at once), so that no two episodes read alike; seed 1 has 5
decisions. Its baselines are random 3, oracle 1: the oracle leaves 1,
so its goal is 2 (1 - 3) / (1 - 3) - 1 = +1, process 1 (nothing wasted), satisfaction 0: R = 0.45 + 0.30 = 0.75.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grading.credit import CreditSettings
from grading.grader import GraderSettings
from grading.order import GradingOrder
from grading.played_here import JudgeHere
from grading.summarizer import SummarizerSettings
from grading.work import GradingWorker, declare
from rollouts.calls.chat_records import ChatReply, ChatRequest
from rollouts.calls.endpoint import Endpoint
from rollouts.calls.fake_replies import FakeRequest, plausible
from rollouts.commits import RunCommits
from rollouts.config import RunConfig
from rollouts.errors import BudgetSpent
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import write_evidence
from rollouts.identity import RunFacts
from rollouts.plan import PlanGroup, make_plan
from rollouts.records import PolicyDescription, SideReport, Snapshot, Unit
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.run.run_record import make_run_record
from rollouts.run.side_folder import SideFolder
from rollouts.scenarios.scenario import Baselines
from rollouts.store.storage import Storage, open_storage
from rollouts.worker import Worker, WorkOrder
from tests.doubles import CountingEnvironment, counting_scenario

RUN_ID = "judged"


class LongerEnvironment(CountingEnvironment):
    def reset(self, seed: int, index: int) -> Snapshot:
        first = super().reset(seed, index)
        self.left = 4 + seed if seed else 0
        return replace(first, health=self.left)


JUDGED = counting_scenario(
    name="judged",
    baselines=Baselines(random=3.0, oracle=1.0),
    environment=lambda scenario, tics, capture: LongerEnvironment(),
)
SEEDS = (1, 2, 3, 4)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
GRADER = GraderSettings("judge-model")
SUMMARIZER = SummarizerSettings("writer-model", batch=2)


def episode_id(seed: int) -> str:
    return f"judged.rule.oracle.{seed}.0"


def make_order(out: Path | str, **changes: Any) -> GradingOrder:
    """An order for the run below `out`; an endpoint is named, nothing ever talks to it."""
    endpoint = Endpoint("http://127.0.0.1:9/v1")
    return GradingOrder(**{"run_id": RUN_ID, "out": str(out), "endpoint": endpoint, **changes})


def played_run(
    out: Path | Storage,
    seeds: tuple[int, ...] = SEEDS,
    judge: JudgeHere | None = None,
    policy: str = "oracle",
    **config: Any,
) -> CommittedRun:
    """A run in which the oracle (or another policy) plays an episode a seed, two a unit, all committed."""
    storage = out if isinstance(out, Storage) else open_storage(out)
    names = {"scenarios": ("tests.judged_runs:JUDGED",), "policies": (policy,), "seeds": ",".join(map(str, seeds))}
    settings = RunConfig(**{**names, "frames": "none", "run_id": RUN_ID, **config})
    facts = RunFacts("0.0", {}, {policy: PolicyDescription(policy, "rule")})
    plan = make_plan([PlanGroup("judged", "rule", policy, seeds)], episodes_per_unit=2)
    folder = RunFolder(storage, RUN_ID)
    lease = folder.acquire()
    record = make_run_record(settings, facts, RUN_ID) | {"started_at": NOON.isoformat()}
    folder.create(lease, record, plan)
    if judge is not None:
        declare(SideFolder(folder), lease, judge.order)
    worker = Worker(WorkOrder(settings, RUN_ID, {policy: policy}, {}, judge), folder, "a", "n")
    commits = RunCommits(folder, lease)
    for unit in plan:
        assert commits.promote(worker.play(unit, lease.next_attempt(), {}))
    worker.close()
    folder.finish(lease)
    return CommittedRun.open(folder)


def answer(request: ChatRequest) -> str:
    """What the fake endpoint would say."""
    messages = [{"role": message.role, "content": message.text} for message in request.messages]
    body = {"messages": messages, **({"response_format": {}} if request.schema else {})}
    reply: Any = plausible(FakeRequest(0, 0.0, "POST", "/", body, has_key=False)).body
    return str(reply["choices"][0]["message"]["content"])


@dataclass
class Model:
    """A `Call` that answers as the fake endpoint does, or as `say` has it, until `budget` requests were made."""

    say: Callable[[ChatRequest], str | ChatReply] = answer
    budget: int | None = None
    requests: list[ChatRequest] = field(default_factory=list)
    on_request: Callable[[ChatRequest], None] = lambda _request: None

    async def __call__(self, request: ChatRequest, /) -> ChatReply:
        if self.budget is not None and len(self.requests) >= self.budget:
            raise BudgetSpent("the budget is used up")
        self.requests.append(request)
        self.on_request(request)
        await asyncio.sleep(0)
        said = self.say(request)
        if isinstance(said, ChatReply):
            return said
        counted = ChatReply(said, finish_reason="stop", model=f"{request.model}-1", tokens_in=100, tokens_out=10)
        return replace(counted, queue_ms=1.0, answer_ms=2.0, total_ms=3.0)


@dataclass
class Desk:
    """A driver's place: it sends units to a worker and commits what comes back."""

    run: CommittedRun
    lease: Lease
    side: SideFolder

    @classmethod
    def at(cls, run: CommittedRun) -> Desk:
        lease = run.folder.acquire()
        side, committed = SideFolder(run.folder), run.folder.recover(lease).committed
        side.recover(lease, committed)
        return cls(run, lease, side)

    @property
    def units(self) -> list[Unit]:
        return self.run.units()

    def attempt(self) -> str:
        return self.lease.next_attempt()

    def commit(self, report: SideReport) -> SideReport:
        self.side.promote(self.lease, report)
        return report

    def grade(self, order: GradingOrder, model: Model | None = None) -> list[SideReport]:
        """Grade every unit, one after the other."""
        declare(self.side, self.lease, order)
        worker = GradingWorker(order)
        return [self.commit(wait_for(worker.grade_unit(unit, self.attempt(), model))) for unit in self.units]

    def summarize(self, order: GradingOrder, model: Model) -> list[SideReport]:
        declare(self.side, self.lease, order)
        worker = GradingWorker(order)
        return [self.commit(wait_for(worker.summarize_unit(unit, self.attempt(), model))) for unit in self.units]

    def credit(self, order: GradingOrder) -> list[SideReport]:
        declare(self.side, self.lease, order)
        worker = GradingWorker(order)
        return [self.commit(worker.credit_unit(unit, self.attempt())) for unit in self.units]

    def rows(self, table: str, id: str | None) -> list[dict[str, Any]]:
        return [row for unit in self.units for row in self.side.rows(table, str(id), unit)]

    def leave(self) -> None:
        self.side.gather(self.lease)
        self.run.folder.finish(self.lease)


def wait_for(work: Coroutine[Any, Any, SideReport]) -> SideReport:
    return asyncio.run(work)


def order_at(root: Path) -> GradingOrder:
    """The order of `judged_run`."""
    return make_order(root, grader=GRADER, summarizer=SUMMARIZER, credit=CreditSettings())


def judged_run(root: Path) -> None:
    """Seeds 1 to 3 played, summarized, graded and credited below `root`, with its evidence."""
    desk, order = Desk.at(played_run(root, seeds=(1, 2, 3))), order_at(root)
    desk.summarize(order, Model())
    desk.grade(order, Model())
    desk.leave()
    write_evidence(desk.run)


def opened(root: Path) -> CommittedRun:
    return CommittedRun.open(RunFolder(open_storage(root), RUN_ID))


def id_of(root: Path, table: str) -> str:
    """Whose shards those of a side table are; calls are the grader's."""
    order = order_at(root)
    return str({"summaries": order.summarizer_id, "credit": order.credit_id}.get(table, order.grader_id))


def shard(root: Path, table: str, id: str = "") -> Path:
    """The part of unit 0."""
    return root / RUN_ID / table / (id or id_of(root, table)) / "part-0000000-0.parquet"
