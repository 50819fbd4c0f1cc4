"""Where a run's models are asked. That is no part of who they are: a run may go on elsewhere, and a person is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grading.order import GradingOrder
from rollouts.policies.model_settings import PROVIDERS
from rollouts.policy_calls import calls_id
from rollouts.records import PolicyDescription
from rollouts.run.lease import Lease
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_tables import CALLS


@dataclass(frozen=True)
class Caller:
    """Whose calls go to an endpoint: the folder below `calls/`, and who that is in words."""

    id: str
    name: str
    base_url: str


def policy_callers(players: Iterable[PolicyDescription], base_url: str) -> list[Caller]:
    """Those of `players` that are models behind an endpoint, each whose calls are its own once."""
    asked = [who for who in players if who.provider in PROVIDERS]
    return list({calls_id(who): Caller(calls_id(who), f"policy {who.name}", base_url) for who in asked}.values())


def judging_callers(order: GradingOrder | None) -> list[Caller]:
    """The grader and the summarizer, where they are models."""
    if order is None or order.endpoint is None:
        return []
    names = {order.summarizer_id: "summarizer", order.grader_id: "grader"}
    asked = [(id, identity["model"]) for table, id, identity in order.folders() if table == CALLS]
    return [Caller(id, f"{names[id]} {model}", order.endpoint.base_url) for id, model in asked]


def note_endpoints(side: SideFolder, lease: Lease, callers: Iterable[Caller]) -> Iterator[str]:
    """Write down where each is asked from now on, and say where else it was before. Errors: `LeaseError`."""
    for caller in callers:
        before = side.note_endpoint(lease, caller.id, caller.base_url)
        if before:
            yield (
                f"{caller.name} was asked at {', '.join(before)} before, and is asked at {caller.base_url} now: it is "
                "taken to be the same model"
            )
