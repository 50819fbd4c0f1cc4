"""The budget over starts that are stopped or killed with requests in flight: each that was sent counts."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import FakeReply, FakeRequest, completion
from rollouts.cli import main
from tests.console import command, environment, rollouts

pytestmark = pytest.mark.slow
NEVER = FakeReply(body={}, fault="silence")
ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
GAME = ("--scenario", "tests.doubles:COUNTING", "--seeds", "1", "--frames", "none", "--pool", "local", "--run-id", "r")
GRADE = ("grade", "runs/r", "--grade", "llm", "--grader-model", "judge", "--pool", "local", "--in-flight", "3")


def stopped(folder: Path, fake: FakeEndpoint, words: tuple[str, ...], requests: int, by: signal.Signals) -> None:
    """Start a command, and end it once the endpoint has seen so many requests in all."""
    endpoint = environment(OPENAI_BASE_URL=fake.base_url, OPENAI_API_KEY="none")
    with subprocess.Popen(command(*words), cwd=folder, env=endpoint, stderr=subprocess.PIPE, text=True) as process:
        seen = fake.wait_until(lambda: len(fake.requests) >= requests, 30)
        process.send_signal(by)
        _, err = process.communicate(timeout=30)
    assert seen, err
    assert process.returncode == (-by if by == signal.SIGKILL else 128 + by), err


def finished(folder: Path, fake: FakeEndpoint, words: tuple[str, ...], code: int = 0) -> dict[str, Any]:
    """The only caller's section of the evidence after a command that was let run."""
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        here.setenv("OPENAI_BASE_URL", fake.base_url)
        here.setenv("OPENAI_API_KEY", "none")
        assert main(words) == code
    manifest = json.loads((folder / "runs/r/manifest.json").read_text(encoding="utf-8"))
    (calls,) = manifest["grading"]["calls"]
    return dict(calls)


def test_graders_that_are_stopped_and_killed_stay_within_the_budget(tmp_path: Path) -> None:
    rollouts(tmp_path, "run", *GAME, "--policy", "random", "--episodes-per-seed", "12", "--grade", "none")
    within = (*GRADE, "--budget-calls", "11")
    with FakeEndpoint(lambda request: NEVER if request.number <= 9 else None) as fake:
        for starts, end in enumerate(ENDS, 1):
            stopped(tmp_path, fake, within, 3 * starts, end)
        calls = finished(tmp_path, fake, within, code=1)
        assert len(fake.requests) == 11
        assert (calls["calls"], calls["tries"], calls["abandoned"], calls["validated"]) == (11, 11, 9, 2)
        calls = finished(tmp_path, fake, GRADE)
    assert (calls["abandoned"], calls["validated"]) == (9, 12)
    assert calls["tries"] == len(fake.requests) == 9 + 12
    rollouts(tmp_path, "verify", "runs/r")


def most_tokens(request: FakeRequest) -> int:
    """What a request may take: 3 bytes a token and 8 for each message, and all the tokens that its reply may have."""
    texts = [str(message["content"]).encode() for message in request.body["messages"]]
    return sum(len(text) // 3 + 8 for text in texts) + int(request.body["max_tokens"])


def test_requests_that_nobody_waited_for_count_in_a_budget_of_tokens(tmp_path: Path) -> None:
    """No reply ever comes, and each start sends three: the third is out of budget before that, whatever ended them."""
    rollouts(tmp_path, "run", *GAME, "--policy", "random", "--episodes-per-seed", "12", "--grade", "none")
    budget = 30_000
    within = (*GRADE, "--budget-tokens", str(budget))
    with FakeEndpoint(lambda _request: NEVER) as fake:
        for starts, end in enumerate(ENDS[:2], 1):
            stopped(tmp_path, fake, within, 3 * starts, end)
        tokens = [most_tokens(request) for request in fake.requests]
        more = (budget - sum(tokens)) // max(tokens)
        assert 1 <= more < 3
        stopped(tmp_path, fake, within, 6 + more, signal.SIGKILL)
        calls = finished(tmp_path, fake, within, code=1)
        tokens = [most_tokens(request) for request in fake.requests]
        assert sum(tokens) <= budget < sum(tokens) + max(tokens)
        assert (calls["calls"], calls["abandoned"], calls["tokens_in"]) == (6 + more, 6 + more, 0)
    rollouts(tmp_path, "verify", "runs/r")


def test_a_policy_that_is_stopped_and_killed_stays_within_the_budget(tmp_path: Path) -> None:
    """The first request of a start is the check whether the endpoint can be used at all; it is answered."""
    letting = False

    def script(request: FakeRequest) -> FakeReply:
        return completion("stay") if letting or request.number % 2 else NEVER

    words = ("run", *GAME, "--policy", "chat:m", "--answer", "plain", "--grade", "none", "--budget-calls", "9")
    with FakeEndpoint(script) as fake:
        for starts, end in enumerate(ENDS, 1):
            stopped(tmp_path, fake, words, 2 * starts, end)
        letting = True
        calls = finished(tmp_path, fake, words, code=1)
        assert calls["tries"] == len(fake.requests) == 9
        assert calls["abandoned"] == 3
        calls = finished(tmp_path, fake, words[:-2])
    assert calls["abandoned"] == 3
    assert calls["tries"] == len(fake.requests) > 9
    rollouts(tmp_path, "verify", "runs/r")
