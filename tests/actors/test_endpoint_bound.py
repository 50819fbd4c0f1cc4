"""Actors that wait for a model: they share processes, and none of them idles while units are owed.

Ordered by events: an answer is given once everybody waits for one, so that an actor that idles would hold up all.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import FakeReply, FakeRequest
from tests.console import episodes, rollouts

pytestmark = pytest.mark.slow
ACTORS, EPISODES = 4, 14
STALL_S = 5.0


class FullHouse(FakeEndpoint):
    """Answers all requests each time that all actors wait for an answer. When nothing has come for a while with fewer
    waiting, all are answered from then on: `begun_at_stall` says how many episodes had begun until then."""

    def __init__(self) -> None:
        super().__init__()
        self.begun_at_stall: int | None = None
        self._held: list[asyncio.Future[None]] = []
        self._was_full = False
        self._stall: asyncio.TimerHandle | None = None

    @property
    def begun(self) -> int:
        """Episodes whose first question has come: in it nothing was chosen before."""
        asked = [str(request.body["messages"][-1]["content"]) for request in self.requests[1:]]
        return sum(" left." in text and "You chose" not in text for text in asked)

    async def _reply(self, request: FakeRequest, reader: asyncio.StreamReader) -> FakeReply:
        if request.number > 1 and self.begun_at_stall is None:  # the first only tries the endpoint
            await self._turn()
        return await super()._reply(request, reader)

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._held.append(turn := loop.create_future())
        if len(self._held) >= ACTORS:
            self._was_full = True
            self._answer_all()
        if self._stall is not None:
            self._stall.cancel()
        if self._was_full:
            self._stall = loop.call_later(STALL_S, self._let_all_go)
        await turn

    def _let_all_go(self) -> None:
        self.begun_at_stall = self.begun
        self._answer_all()

    def _answer_all(self) -> None:
        while self._held:
            self._held.pop().set_result(None)


def test_no_actor_idles_while_units_are_owed(tmp_path: Path) -> None:
    with FullHouse() as fake:
        words = (
            *("run", "--scenario", "tests.doubles:COUNTING", "--policy", "chat:fake", "--seeds", "1,2"),
            *("--episodes-per-seed", str(EPISODES // 2)),  # each longer than the one before
            *("--frames", "none", "--grade", "none", "--base-url", fake.base_url, "--run-id", "r"),
            *("--actors", str(ACTORS), "--cpus-per-actor", "0.5", "--in-flight", str(ACTORS)),
        )
        rollouts(tmp_path, *words)
        assert fake.begun_at_stall == fake.begun == EPISODES
        assert fake.most_in_flight == ACTORS
    rows = episodes(tmp_path)
    assert [row["status"] for row in rows] == ["completed"] * EPISODES
    told = {path.stem: path.read_text().splitlines() for path in (tmp_path / "runs/r/logs").iterdir()}
    assert set(told) == {row["actor"] for row in rows}
    assert len(told) == ACTORS, "each has a log of its own, though two share a process"
    assert len({name.rpartition("-")[0] for name in told}) == ACTORS / 2
    lines = [(name, json.loads(line)) for name, log in told.items() for line in log]
    assert all((line["run"], line["actor"]) == ("r", name) for name, line in lines)
    played = [line["episode"] for _, line in lines if line["event"] == "episode"]
    assert sorted(played) == sorted(row["episode_id"] for row in rows)
