"""A policy's calls to models: through the run's limits, and each on file before the game goes on.

The rows of `calls` are the budget's memory. Those of a unit that is played to its end become a shard beside it; those
of a try that was given up stay on file one by one, and the driver gathers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rollouts.calls.blocking_call import BlockingCall
from rollouts.calls.chat_records import ChatReply, ChatRequest, WireName
from rollouts.calls.endpoint import CallSettings, Endpoint
from rollouts.calls.limits import Limiter, Spending
from rollouts.calls.notice import notice_to
from rollouts.calls.prices import Price
from rollouts.naming import identified
from rollouts.records import EpisodeKey, PolicyDescription, SideCounts, SideShard, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.run.side_tables import CALLS, part_name
from rollouts.shards.call_rows import abandoned_columns, reply_columns
from rollouts.shards.side_rows import episode_columns, write_side

KIND = "decide"
MENDABLE = frozenset({"context_length", "picture_limit"})
REQUIRED = frozenset({"images"})


@dataclass(frozen=True)
class CallOrder:
    """How the policies of a run call models. Small and picklable; holds no key."""

    endpoint: Endpoint
    settings: CallSettings
    prices: Mapping[str, Price]


def calls_identity(who: PolicyDescription) -> dict[str, Any]:
    """The text behind the id of a policy's calls: all that its requests depend on, but for the game. A mixture's are
    those of the policy inside it."""
    if who.inner is not None:
        return calls_identity(who.inner)
    return {"kind": KIND, "policy": who.name, "model": who.model, "provider": who.provider, "settings": who.settings}


def calls_id(who: PolicyDescription) -> str:
    """The folder below `calls/`."""
    identity = calls_identity(who)
    return identified(identity["policy"], identity)


class CallLog:
    """The calls of the unit that is being played. `begin` it, name each `episode`, and `stage` what was said."""

    def __init__(self, folder: RunFolder) -> None:
        self._side = SideFolder(folder)
        self._run_id = folder.run_id
        self._rows: list[dict[str, Any]] = []
        self._waiting = False
        self._pulse = 0

    @property
    def pulse(self) -> int:
        """Grows each time that somebody looks while a call is under way, which ends in time whatever the endpoint does:
        waiting for a model is no hang. May be read by another thread."""
        self._pulse += self._waiting
        return self._pulse

    def begin(self, who: str, unit: Unit, attempt: str) -> None:
        self._who, self._unit, self._attempt = who, unit, attempt
        self._rows = []

    def episode(self, key: EpisodeKey) -> None:
        self._key = key

    def ask(self, call: BlockingCall, request: ChatRequest) -> ChatReply:
        """Ask, and put each request on file before it is sent, then the reply over it. Errors: `StorageError`, and what
        the call raises."""
        sent: list[dict[str, Any]] = []

        async def note(tries: int, spent: Spending) -> None:
            sent[:] = [{**self._asked(request), **abandoned_columns(tries, spent), "ended_at": datetime.now(UTC)}]
            self._side.journal.write(self._who, self._unit, sent[0])  # nothing else is done in this call's loop

        self._waiting = True
        try:
            with notice_to(note):
                reply = call(request)
        except BaseException:
            self._rows += sent
            raise
        finally:
            self._waiting = False
        self.add(request, reply)
        return reply

    def add(self, request: ChatRequest, reply: ChatReply) -> None:
        """Put a call on file. Errors: `StorageError`."""
        row = self._row(request, reply)
        self._side.journal.write(self._who, self._unit, row)
        self._rows.append(row)

    def stage(self, scratch: Path) -> tuple[SideShard | None, SideCounts]:
        """Stage the unit's calls beside what was played, and count them."""
        if not self._rows:
            return None, SideCounts()
        local = scratch / "calls.spool"
        file = write_side(local, CALLS, self._rows, part_name(self._unit.number, 0))
        self._side.stage(self._unit, self._attempt, CALLS, self._who, local)
        return SideShard(CALLS, self._who, file), _counts(self._rows)

    def _row(self, request: ChatRequest, reply: ChatReply) -> dict[str, Any]:
        return {
            **self._asked(request),
            "validated": False,
            "status": "failed" if reply.error else "answered",
            "model": reply.model,
            "tries": reply.tries,
            "ended_at": datetime.now(UTC),
            **reply_columns(reply),
        }

    def _asked(self, request: ChatRequest) -> dict[str, Any]:
        return {
            **episode_columns(self._run_id, self._key),
            "unit": self._unit.number,
            "call_id": f"{self._attempt}.{len(self._rows)}",
            "kind": KIND,
            "who": self._who,
            "request_sha256": request.key(),
            "requested_model": request.model,
        }


def _counts(rows: list[dict[str, Any]]) -> SideCounts:
    return SideCounts(
        calls=len(rows),
        requests=sum(row["tries"] for row in rows),
        tokens_in=sum(row.get("tokens_in") or 0 for row in rows),
        tokens_out=sum(row.get("tokens_out") or 0 for row in rows),
        cost_usd=sum(row.get("cost_usd") or 0.0 for row in rows),
        unpriced=sum(row.get("tokens_in") is not None and row.get("cost_usd") is None for row in rows),
    )


class PolicyCalls:
    """What a worker lends to its policies (`ModelCalls`). `holder` names the worker to the limiter."""

    def __init__(self, order: CallOrder, limiter: Limiter, holder: str, log: CallLog) -> None:
        self._order = order
        self._limiter = limiter
        self._holder = holder
        self._log = log

    def open(self, wire: WireName) -> LoggedCall:
        from rollouts.calls.chat import ChatClient  # noqa: PLC0415  half a second that runs without a model need not wait
        from rollouts.calls.wire import WIRES  # noqa: PLC0415

        order = self._order
        client = ChatClient(order.endpoint, self._limiter, order.settings, order.prices, self._holder, WIRES[wire])
        return LoggedCall(BlockingCall(client), order.endpoint.base_url, self._log)


class LoggedCall:
    """A `ModelCall` whose every reply is on file before it is returned."""

    def __init__(self, call: BlockingCall, where: str, log: CallLog) -> None:
        self.where = where
        self._call = call
        self._log = log

    def __call__(self, request: ChatRequest, /) -> ChatReply:
        return self._log.ask(self._call, request)

    def close(self) -> None:
        self._call.close()
