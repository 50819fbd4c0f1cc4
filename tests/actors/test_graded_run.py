"""Runs that are graded and summarized while they are played: on real Ray, over real HTTP, against a scripted endpoint.

What the endpoint has seen is compared with what the run says; all of it is ordered by events, not by clocks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from grading.lines import SideWish
from grading.pipeline import SidePipeline
from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import FakeReply, FakeRequest, plausible, quota_exhausted, rate_limited
from rollouts.commands.pools import Place
from rollouts.progress import Counts
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.signals import Signals
from tests.gated import GATE_DIR, gate
from tests.graded_runs import COUNTING, GradedRun, Wished, graded, rows_of
from tests.processes import descendants

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
ROOT = Path(__file__).resolve().parents[2]
EPISODES = 32
IN_FLIGHT = 16
STALL_S = 6.0
ON_RAY = {**COUNTING, "pool": "ray", "actors": "1", "graders": "2", "summarizers": "2", "lanes": "8"}
LONG = {"seeds": "1", "episodes_per_seed": "32"}
"""Episodes of 5 to 36 and more decisions: up to a dozen calls for the summaries of one."""
LOCAL = {**COUNTING, "pool": "local"}


class WatchedPlace(Place):
    """Lets a test look at the pipeline that a command makes for itself."""

    pipeline: SidePipeline | None = None

    def next_command(self) -> None:
        """Each command has limits of its own."""
        self._governed = None

    def side_pipeline(self, wish: SideWish, folder: RunFolder, lease: Lease, signals: Signals) -> SidePipeline:
        self.pipeline = super().side_pipeline(wish, folder, lease, signals)
        return self.pipeline


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedPlace]:
    """One Ray for all; its workers know where the gate is, and where this folder of tests is."""
    os.environ[GATE_DIR] = str(tmp_path_factory.mktemp("gate"))
    os.environ["PYTHONPATH"] = str(ROOT)
    with WatchedPlace("ray") as place:
        yield place


class FullHouse(FakeEndpoint):
    """Answers one request each time that 16 are waiting. When nothing has come for a while with fewer waiting, the rest
    is answered too: `seen_at_stall` says how many had come until then."""

    def __init__(self) -> None:
        super().__init__()
        self.seen_at_stall: int | None = None
        self._held: list[asyncio.Future[None]] = []
        self._stall: asyncio.TimerHandle | None = None

    async def _reply(self, request: FakeRequest, reader: asyncio.StreamReader) -> FakeReply:
        gate().touch()
        loop = asyncio.get_running_loop()
        if self._stall is not None:
            self._stall.cancel()
        if self.seen_at_stall is None:
            self._held.append(turn := loop.create_future())
            if len(self._held) >= IN_FLIGHT:
                self._held.pop(0).set_result(None)
            self._stall = loop.call_later(STALL_S, self._let_all_go)
            await turn
        return await super()._reply(request, reader)

    def _let_all_go(self) -> None:
        self.seen_at_stall = self.seen_at_stall or len(self.requests)
        while self._held:
            self._held.pop().set_result(None)


class Looker:
    """Asks for the pipeline's state all the while, and times the answers."""

    def __init__(self, place: WatchedPlace) -> None:
        self.looks = 0
        self.longest_s = 0.0
        self.grades_seen: set[int] = set()
        self._place = place
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Looker:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.02):
            if (pipeline := self._place.pipeline) is None:
                continue
            begun = time.monotonic()
            status, calls = pipeline.status(), pipeline.calls()
            self.longest_s = max(self.longest_s, time.monotonic() - begun)
            self.looks += 1
            self.grades_seen.add(status["grades"].committed)
            assert calls is not None
            assert calls.in_flight <= IN_FLIGHT


def check_whole(run: GradedRun | Path) -> None:
    """Every episode has one grade, every span one entry, and every decision one credit."""
    rows = (lambda table: rows_of(run, table)) if isinstance(run, Path) else run.rows
    grades, entries, credit = rows("grades"), rows("summaries"), rows("credit")
    assert Counter(row["episode_id"] for row in grades) == dict.fromkeys({r["episode_id"] for r in grades}, 1)
    assert len(grades) == EPISODES
    assert {(row["status"], row["cause"]) for row in grades} == {("graded", None)}
    assert max(Counter((row["episode_id"], row["span"]) for row in entries).values()) == 1
    assert {row["episode_id"] for row in entries} == {row["episode_id"] for row in grades}
    assert max(Counter((row["episode_id"], row["tick"]) for row in credit).values()) == 1
    assert {row["episode_id"] for row in credit} == {row["episode_id"] for row in grades}


def tries(rows: list[dict[str, Any]]) -> int:
    return sum(row["tries"] or 0 for row in rows)


def test_sixteen_slots_are_full_as_long_as_calls_are_owed(tmp_path: Path, place: WatchedPlace) -> None:
    """The last episode is played once the first request has come: grading begins before the rollouts end, or never.
    Each answer waits until 16 requests are there: a slot that idles while calls are owed would stall it early."""
    settings = {**ON_RAY, "scenarios": "tests.gated:GATED"}
    with FullHouse() as fake, Looker(place) as looker:
        run = graded(Wished(tmp_path, fake, settings, place))
    assert run.played.outcome.state == run.side.state == "complete"
    check_whole(run)
    assert fake.most_in_flight == IN_FLIGHT
    assert fake.seen_at_stall == len(fake.requests)
    assert len(fake.requests) == tries(run.rows("calls")) > EPISODES + IN_FLIGHT
    assert run.side.calls is not None
    assert run.side.calls.spent.calls == len(fake.requests)
    assert looker.looks > 50
    assert looker.longest_s < 1.0
    assert len(looker.grades_seen) > 5, "the state stood still"


def numbered(request: FakeRequest) -> FakeReply:
    return replace(plausible(request), headers={"x-request-id": f"request-{request.number}"})


def check_nothing_paid_twice(fake: FakeEndpoint, calls: list[dict[str, Any]]) -> None:
    """A request is not seen again once its reply is stored; every validated reply is stored once."""
    stored = {row["request_id"] for row in calls if row["validated"] and row["reused_call_id"] is None}
    last: dict[str, int] = {}
    for request in fake.requests:
        body = json.dumps(request.body, sort_keys=True)
        assert f"request-{last.get(body)}" not in stored, "it was stored, and asked again"
        last[body] = request.number
    heard = [row for row in calls if row["status"] != "abandoned"]
    per_request = Counter(row["request_id"] for row in heard if row["reused_call_id"] is None)
    assert max(per_request.values()) == 1


def command_line(out: Path, fake: FakeEndpoint, *more: str) -> tuple[list[str], dict[str, str]]:
    """`rollouts run` of the long episodes with everything judged, and its environment."""
    command = [
        *(sys.executable, "-m", "rollouts.cli", "run", "--scenario", "tests.doubles:COUNTING", "--policy", "random"),
        *("--seeds", "1", "--episodes-per-seed", "32", "--frames", "none", "--actors", "1"),
        *("--out", str(out), "--run-id", "hurt", "--grade", "llm", "--grader-model", "judge"),
        *("--summarize", "llm", "--summarizer-model", "scribe", *more),
    ]
    endpoint = {"OPENAI_BASE_URL": fake.base_url, "OPENAI_API_KEY": "none", "RAY_AUTH_MODE": "disabled"}
    return command, {**os.environ, "PYTHONPATH": str(ROOT), **endpoint}


@contextmanager
def started(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process of the command, dead when this is left."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def seen_at_least(fake: FakeEndpoint, requests: int) -> None:
    assert fake.wait_until(lambda: len(fake.requests) >= requests, 120), f"only {len(fake.requests)} requests came"


def kill(driver: int, name: str) -> bool:
    """SIGKILL one process below the driver whose name begins so, once it is there: graders come with the first unit."""
    over_s = time.monotonic() + 30
    while time.monotonic() < over_s:
        for process in descendants(name, driver)[:1]:
            process.kill()
            return True
        time.sleep(0.02)
    return False


def test_killed_graders_summarizers_and_drivers_cost_nothing_that_was_stored(tmp_path: Path) -> None:
    with FakeEndpoint(numbered, delay_s=0.3) as fake:
        command, environment = command_line(tmp_path, fake, "--graders", "2", "--summarizers", "2", "--in-flight", "8")
        with started(command, environment) as driver:
            for moment, name in ((16, "ray::GraderActo"), (32, "ray::Summarizer"), (48, "ray::Summarizer")):
                seen_at_least(fake, moment)
                assert kill(driver.pid, name), f"{name} is not there"
            seen_at_least(fake, 70)
            driver.send_signal(signal.SIGKILL)
        assert fake.wait_until(lambda: fake.connections == 0, 30)
        before = len(fake.requests)
        with started(command, environment) as second:
            out, _ = second.communicate(timeout=240)
            assert second.returncode == 0, out
    assert 0 < before < len(fake.requests)
    check_whole(tmp_path / "hurt")
    calls = rows_of(tmp_path / "hurt", "calls")
    check_nothing_paid_twice(fake, calls)
    assert len(fake.requests) <= tries(calls) <= len(fake.requests) + 8 * 4, "one killed as it was about to be sent"


def test_a_signal_ends_it_in_time_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """Sixteen answers that never come hold nobody up; what was answered before is not asked again, and what was sent
    counts."""
    never = FakeReply(body={}, fault="silence")
    with FakeEndpoint(lambda request: numbered(request) if request.number <= 20 else never) as fake:
        command, environment = command_line(tmp_path, fake, "--in-flight", "16")
        with started(command, environment) as driver:
            seen_at_least(fake, 36)
            family = psutil.Process(driver.pid).children(recursive=True)
            driver.send_signal(signal.SIGTERM)
            begun = time.monotonic()
            out, _ = driver.communicate(timeout=30)
            took_s = time.monotonic() - begun
        assert driver.returncode == 128 + signal.SIGTERM, out
        _, alive = psutil.wait_procs(family, timeout=30)
        assert alive == []
    assert took_s < 15  # the answers never come; 2 s where nothing else runs
    sent = len(fake.requests)
    with FakeEndpoint(numbered) as fake:
        command, environment = command_line(tmp_path, fake)
        with started(command, environment) as second:
            out, _ = second.communicate(timeout=240)
            assert second.returncode == 0, out
    check_whole(tmp_path / "hurt")
    assert tries(rows_of(tmp_path / "hurt", "calls")) == sent + len(fake.requests)
    assert sent == 36


@pytest.mark.parametrize("settings", [ON_RAY, LOCAL], ids=["ray", "local"])
def test_a_budget_stops_cleanly_and_a_higher_one_goes_on(
    tmp_path: Path, place: WatchedPlace, settings: dict[str, str]
) -> None:
    here = place if settings is ON_RAY else None

    def start(budget: str) -> GradedRun:
        place.next_command()
        return graded(Wished(tmp_path, fake, {**settings, **LONG, "budget_calls": budget}, here))

    with FakeEndpoint(numbered) as fake:
        first = start("60")
        assert (first.played.outcome.state, first.side.state) == ("complete", "budget")
        assert first.side.cause is not None
        assert first.side.cause.startswith("the budget of 60 calls is used up (60 calls")
        calls = first.rows("calls")
        assert len(fake.requests) == tries(calls) == len(calls) == 60
        done = {row["episode_id"] for row in first.rows("grades")}
        assert len(done) < EPISODES
        assert first.side.stages["grades"].owed == EPISODES - len(done)
        again = start("60")
        assert (again.side.state, len(fake.requests)) == ("budget", 60)
        last = start("1000")
    assert last.side.state == "complete"
    check_whole(last)
    check_nothing_paid_twice(fake, last.rows("calls"))
    assert tries(last.rows("calls")) == len(fake.requests)


def test_rate_limits_and_storms_are_waited_out_and_every_request_is_in_the_evidence(tmp_path: Path) -> None:
    """429 with Retry-After in seconds, milliseconds and as a date that has passed, and a storm of 503."""
    turned_away = {
        **{2: rate_limited(retry_after="1"), 3: rate_limited(retry_after_ms="200")},
        **{4: rate_limited(retry_after="Wed, 21 Oct 2015 07:28:00 GMT")},
        **{number: FakeReply(503, b"overloaded") for number in range(9, 19)},
    }
    settings = {**LOCAL, "in_flight": "8"}
    with FakeEndpoint(lambda request: turned_away.get(request.number)) as fake:
        run = graded(Wished(tmp_path, fake, settings))
    assert run.side.state == "complete"
    check_whole(run)
    calls = run.rows("calls")
    assert len(fake.requests) == tries(calls) == len(calls) + len(turned_away)
    counts = [stage.counts for stage in run.side.stages.values()]
    assert sum(count.requests for count in counts) == len(fake.requests)
    assert sum(count.calls for count in counts) == len(calls)
    assert run.side.calls is not None
    assert run.side.calls.spent.calls == len(fake.requests)


def test_an_exhausted_quota_stops_grading_in_one_clear_line_and_the_run_is_whole(tmp_path: Path) -> None:
    with FakeEndpoint(lambda _request: quota_exhausted()) as fake:
        run = graded(Wished(tmp_path, fake, {**LOCAL, "summarize": "none", "in_flight": "2"}))
        assert (run.played.outcome.state, run.side.state) == ("complete", "stopped")
        assert run.side.cause is not None
        assert "refused" in run.side.cause
        assert "quota" in run.side.cause
        calls = run.rows("calls")
        assert len(fake.requests) == tries(calls)
        assert 5 <= len(fake.requests) <= 7
    assert {row["status"] for row in run.rows("grades")} == {"ungraded"}
    assert {row["cause"] for row in run.rows("grades")} == {"endpoint_error"}
    assert len(run.rows("grades")) == len(fake.requests)


def test_a_grader_of_summaries_waits_for_them_and_reads_them(tmp_path: Path) -> None:
    said: list[str] = []

    def script(request: FakeRequest) -> FakeReply | None:
        if request.body["model"] == "judge":
            said.append(request.text)
        return None

    settings = {**LOCAL, "grade_from": "summaries", "grader_chars": "1600", "credit": "summary"}
    with FakeEndpoint(script) as fake:
        run = graded(Wished(tmp_path, fake, settings))
    assert run.side.state == "complete"
    check_whole(run)
    assert {row["rule"] for row in run.rows("credit")} == {"summary"}
    assert len(said) == EPISODES


def test_credit_by_summaries_beside_a_grader_of_transcripts_comes_last_and_is_whole(tmp_path: Path) -> None:
    seen: list[Counts] = []
    with FakeEndpoint() as fake:
        run = graded(Wished(tmp_path, fake, {**LOCAL, "credit": "summary"}), seen.append)
        assert run.side.state == "complete"
        check_whole(run)
        assert run.side.stages["credit"].committed == EPISODES
        asked = len(fake.requests)
        again = graded(Wished(tmp_path, fake, {**LOCAL, "credit": "constant:0.5"}))
        assert len(fake.requests) == asked, "another credit rule takes no call"
    assert again.side.state == "complete"
    assert {row["rule"] for row in again.rows("credit")} == {"summary", "constant:0.5"}
    assert seen[-1].side.graded == EPISODES
