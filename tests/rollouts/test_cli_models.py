"""Models that play, as a user of the console meets them: real runs of the real engine, a real endpoint on loopback."""

from __future__ import annotations

import base64
import io
import json
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import (
    FakeReply,
    FakeRequest,
    Script,
    broken,
    completion,
    failing,
    lettered,
    unsupported,
)
from rollouts.cli import main
from rollouts.frames import decode
from rollouts.policies.chat_prompt import chat_prompt

PLAYED = ("--scenario", "defend_the_center", "--step-cap", "6", "--pool", "local", "--run-id", "r")
GAME = (*PLAYED, "--grade", "none")
MODEL = ("--policy", "chat:m", "--request-tries", "2", "--retry-after-cap-s", "0")
CAUSES = ("empty", "not_an_option", "several")


@dataclass
class Said:
    """What a command left: its exit code, what it printed, the requests that reached the endpoint meanwhile."""

    code: int
    out: str
    err: str
    requests: tuple[FakeRequest, ...]

    @property
    def done(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found

    @property
    def policy_calls(self) -> dict[str, Any]:
        (found,) = [calls for calls in self.done["grading"]["calls"] if calls["kind"] == "policy"]
        return dict(found)


@dataclass
class Console:
    """Runs commands in a folder of its own."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    script: Script = field(default=lambda _request: None)

    def __call__(self, *words: str) -> Said:
        self.capture.readouterr()
        with FakeEndpoint(self.script) as fake:
            code = main([word.replace("ENDPOINT", fake.base_url) for word in words])
        return Said(code, *self.capture.readouterr(), fake.requests)

    def run(self, *words: str) -> Said:
        return self("run", *GAME, *MODEL, "--base-url", "ENDPOINT", "--json", *words)

    @property
    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = pq.read_table(self.folder / "runs/r/steps").to_pylist()
        return found

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "runs/r/manifest.json").read_text())
        return found


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Console:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "POLICY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Console(tmp_path, capfd)


def pictures(request: FakeRequest) -> list[Any]:
    contents = [m["content"] for m in request.body["messages"] if isinstance(m["content"], list)]
    urls = [part["image_url"]["url"] for parts in contents for part in parts if part["type"] == "image_url"]
    return [np.array(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))) for url in urls]


def refused(said: Said, *words: str) -> None:
    assert said.code == 2
    assert said.err.count("\n") == 1, said.err
    assert [word for word in words if word not in said.err] == []


@pytest.mark.slow
@pytest.mark.parametrize("observe", ["text", "frame", "both"])
def test_an_arm_from_end_to_end(console: Console, observe: str) -> None:
    said = console.run("--seeds", "0:2", "--observe", observe, "--shuffle-options")
    rows, decisions = console.rows, said.requests[1:]
    assert (said.code, len(rows), len(decisions)) == (0, 12, 12)
    for row, request in zip(rows, decisions, strict=True):
        known = [p for p in row["probabilities"] if p is not None]
        assert sum(known) == pytest.approx(row["option_mass"])
        assert row["option_mass"] == pytest.approx(0.95)
        assert (row["out_of_schema"], row["model_action"] in row["options"]) == (False, True)
        assert (row["tokens_in"] > 50, row["tokens_out"], row["model_version"]) == (True, 1, "m")
        assert sorted(row["options_shown"]) == sorted(row["options"]) == ["attack", "turn left", "turn right"]
        sent = json.dumps(request.body["messages"], ensure_ascii=False)
        assert (row["state"] in sent) is (observe != "frame")
        _check_pictures(row, request, seen=observe != "text")
    assert len({tuple(row["options_shown"]) for row in rows}) > 1
    (who,) = console.manifest["policies"].values()
    assert who["settings"]["observe"] == observe
    assert said.policy_calls["calls"] == 13
    assert console("verify", "runs/r").code == 0


def _check_pictures(row: dict[str, Any], request: FakeRequest, seen: bool) -> None:
    shown = pictures(request)
    assert len(shown) == int(seen)
    assert (row["frame"]["path"] in row["messages"]) is seen
    if seen:
        assert np.array_equal(shown[0], decode(row["frame"]["bytes"]))
        assert "MarineChainsaw" not in json.dumps(request.body) or row["state"] in json.dumps(request.body)


@pytest.mark.slow
def test_what_is_out_of_schema_is_counted_by_cause_and_exact_figures_stand_beside(console: Console) -> None:
    replies = ["", "jump", "attack, turn left", "Action: attack", "attack", "attack"]
    console.script = lambda request: completion(replies[(request.number - 2) % 6])
    said = console.run("--seeds", "0:1", "--answer", "plain")
    rows = console.rows
    assert [row["schema_error"] for row in rows] == [*CAUSES, None, None, None]
    assert [row["parse_rule"] for row in rows] == [None, None, None, "labelled", "exact", "exact"]
    assert [row["raw_reply"] for row in rows] == replies
    assert {row["effective_action"] for row in rows} == {"attack"}
    assert [row["acted_by"] for row in rows] == ["fallback"] * 3 + ["policy"] * 3
    (group,) = said.done["coverage"]["groups"]
    assert group["out_of_schema_by_cause"] == dict.fromkeys(sorted(CAUSES), 1)
    (block,) = said.done["results"]
    assert (block["n_out_of_schema"], block["exact_match"]["n_out_of_schema"], block["exact_match"]["n"]) == (3, 4, 6)


@pytest.mark.slow
def test_a_policy_that_answers_nothing_by_itself_ends_the_run_with_1_and_says_why(console: Console) -> None:
    console.script = lambda request: broken("silence") if request.number > 1 else None
    words = ("--request-timeout-s", "0.2", "--seeds", "0:1")
    said = console.run(*words, "--policy", "oracle")
    assert (said.code, said.done["state"], said.done["exit_code"]) == (1, "complete", 1)
    assert {row["schema_error"] for row in console.rows if row["policy"] == "chat:m"} == {"timeout"}
    assert said.done["unanswered"] == [{"policy": "chat:m", "asked": 6, "out_of_schema_by_cause": {"timeout": 6}}]
    told = "no answer of its own in the whole run: policy chat:m: 6 of 6 decisions (100%) were not its own"
    assert told in said.err.splitlines()[-1]
    assert "most frequent cause: timeout (6)" in said.err.splitlines()[-1]
    again = console("run", *GAME, *MODEL, "--policy", "oracle", "--base-url", "ENDPOINT", *words)
    assert (again.code, again.requests) == (1, ())
    assert "WARNING: policy chat:m in defend_the_center/rule: 6 of 6 decisions (100%)" in again.out


@pytest.mark.slow
def test_a_spent_budget_leaves_episodes_owed_and_a_higher_one_goes_on(console: Console) -> None:
    first = console.run("--seeds", "0:2", "--budget-calls", "10")
    assert (first.code, first.done["state"], first.done["owed"]) == (1, "budget", 1)
    assert len(first.requests) == 10
    assert console("verify", "runs/r").out.splitlines()[0].startswith("1 of 2 planned episodes are missing")
    assert "1 difference in" in console("verify", "runs/r").out
    again = console.run("--seeds", "0:2", "--budget-calls", "10")
    assert (again.code, again.done["state"], len(again.requests)) == (1, "budget", 0)
    more = console.run("--seeds", "0:2", "--budget-calls", "30")
    assert (more.code, more.done["state"], len(more.requests)) == (0, "complete", 7)
    assert more.policy_calls["tries"] == 17
    assert console("verify", "runs/r").code == 0


@pytest.mark.slow
def test_a_key_refused_on_the_way_stops_the_run_and_the_episode_stays_owed(console: Console) -> None:
    console.script = lambda request: failing(401, "key expired") if request.number > 4 else None
    said = console.run("--seeds", "0:2")
    assert (said.code, said.done["state"], said.done["owed"]) == (1, "stopped", 2)
    assert "key expired" in said.err.splitlines()[-1]
    assert not (console.folder / "runs/r/steps").exists()


@pytest.mark.slow
def test_an_endpoint_that_was_gone_for_a_while_voids_the_try(console: Console) -> None:
    console.script = lambda request: broken("drop") if 4 <= request.number <= 5 else None
    said = console.run("--seeds", "0:1")
    assert (said.code, said.done["state"]) == (0, "complete")
    assert [row["tick"] for row in console.rows] == list(range(6))
    assert {row["out_of_schema"] for row in console.rows} == {False}
    assert len(said.requests) == 1 + 2 + 2 + 6
    assert said.policy_calls["tries"] == len(said.requests)


@pytest.mark.slow
def test_an_endpoint_that_is_gone_for_good_ends_the_run_without_a_made_up_row(console: Console) -> None:
    console.script = lambda request: broken("drop") if request.number > 3 else None
    said = console.run("--seeds", "0:4")
    assert (said.code, said.done["state"]) == (1, "stopped")
    assert "chat:m at http://127.0.0.1" in said.err.splitlines()[-1]
    assert said.done["coverage"]["completed"] == 0
    assert not (console.folder / "runs/r/steps").exists()


@pytest.mark.slow
def test_a_policy_has_an_endpoint_and_a_key_of_its_own_beside_the_graders(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLICY_API_KEY", "sk-of-the-policy")
    with FakeEndpoint() as other:
        graded = ("--grade", "llm", "--grader-model", "judge", "--policy-base-url", other.base_url)
        said = console("run", *PLAYED, *MODEL, "--base-url", "ENDPOINT", "--json", "--seeds", "0:1", *graded)
    assert said.code == 0
    assert Counter(request.body["model"] for request in said.requests) == {"judge": 1}
    assert Counter(request.body["model"] for request in other.requests) == {"m": 7}
    assert (other.requests[0].has_key, said.done["grading"]["graders"][0]["graded"]) == (True, 1)


@pytest.mark.slow
def test_a_run_that_goes_on_at_another_endpoint_says_so_in_one_line(console: Console) -> None:
    """Both the policy's and the grader's; not where it goes on at the same one, nor where nobody is asked."""
    graded = ("--grade", "llm", "--grader-model", "judge", "--seeds", "0:2", "--json")
    words = ("run", *PLAYED, *MODEL, "--base-url", "ENDPOINT", *graded)

    def notes(said: Said) -> list[str]:
        told = [event["text"] for event in map(json.loads, said.out.splitlines()) if event["event"] == "note"]
        return [text for text in told if " was asked at " in text]

    assert notes(console(*words, "--budget-calls", "10")) == []
    (first,) = {url for calls in console.manifest["grading"]["calls"] for url in calls["endpoints"]}
    moved = console(*words, "--budget-calls", "100")
    assert json.loads(moved.out.splitlines()[0])["event"] == "launch"
    policy, grader = notes(moved)
    assert policy.startswith(f"policy chat:m was asked at {first} before, and is asked at http://127.0.0.1:")
    assert policy.endswith("now: it is taken to be the same model")
    assert grader.startswith(f"grader judge was asked at {first} before")
    assert (moved.code, notes(console(*words, "--budget-calls", "100"))) == (0, [])
    assert {len(calls["endpoints"]) for calls in console.manifest["grading"]["calls"]} == {2}
    assert console("verify", "runs/r").code == 0
    (later,) = notes(
        console("grade", "runs/r", *graded[:4], "--base-url", "ENDPOINT", "--repeat", "2", "--pool", "local", "--json")
    )
    assert later.count("http://127.0.0.1:") == 3


@pytest.mark.slow
def test_a_mixture_asks_a_model_now_and_then_and_each_row_knows_its_frame(console: Console) -> None:
    words = ("--policy", "mixture:0.5:chat:m", "--observe", "both", "--history", "1", "--history-frames", "1")
    said = console("run", *GAME, *words, "--base-url", "ENDPOINT", "--json", "--seeds", "0:2")
    asked = [row for row in console.rows if row["asked"]]
    assert (said.code, 0 < len(asked) < 12, len(said.requests)) == (0, True, 1 + len(asked))
    assert all(
        row["frame"]["path"] in json.loads(row["messages"])[-1]["content"][1]["image_url"]["url"] for row in asked
    )
    assert {row["messages"] for row in console.rows if not row["asked"]} == {None}
    assert said.policy_calls["calls"] == len(said.requests)
    again = console("verify", "runs/r", "--replay", "2")
    assert (again.code, "none played again: no episode was completed by a policy that can" in again.out) == (0, True)


@pytest.mark.slow
def test_a_decision_endpoint_plays(console: Console) -> None:
    words = ("--policy", "choice:laya", "--base-url", "ENDPOINT", "--json", "--seeds", "0:1", "--frames", "none")
    said = console("run", *GAME, *words)
    rows = console.rows
    assert (said.code, len(rows), len(said.requests)) == (0, 6, 7)
    assert {request.path for request in said.requests} == {"/v1/systemone"}
    assert {round(sum(row["probabilities"]), 9) for row in rows} == {1.0}
    assert [row["state"] for row in rows] == [request.body["state"] for request in said.requests[1:]]
    assert {row["confidence"] for row in rows} == {0.6}
    assert console("verify", "runs/r").code == 0


def test_nobody_listens(console: Console) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    refused(console("run", *GAME, *MODEL, "--base-url", url), url, "is not there")
    assert not (console.folder / "runs").exists()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (failing(404, "The model `m` does not exist"), ["chat:m", "http://127.0.0.1:", "`m` does not exist"]),
        (failing(401, "Incorrect API key"), ["http://127.0.0.1:", "Incorrect API key"]),
        (unsupported("logprobs"), ["log-probabilities", "--answer json"]),
        (failing(400, "what is this?"), ["http://127.0.0.1:", "what is this?"]),
    ],
)
def test_a_model_that_cannot_play_is_found_out_before_anything_starts(
    console: Console, reply: FakeReply, words: Sequence[str]
) -> None:
    console.script = lambda _request: reply
    said = console("run", *GAME, *MODEL, "--base-url", "ENDPOINT")
    refused(said, *words)
    assert len(said.requests) == 1
    assert not (console.folder / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "asked", "words"),
    [
        (failing(500, "CUDA error"), 2, ["HTTP 500: CUDA error", "2 tries"]),
        (failing(502), 2, ["HTTP 502", "2 tries"]),
        (broken("silence"), 2, ["no answer within 0.3 s", "2 tries", "--request-timeout-s"]),
        (broken("comments"), 2, ["no answer within 0.3 s"]),
        (FakeReply(body={"choices": []}), 2, ["no choices"]),
        (FakeReply(body={"object": "list"}), 2, ["the reply has no choices", "2 tries"]),
        (FakeReply(body=b"<html>"), 2, ["not JSON"]),
    ],
)
def test_an_endpoint_that_cannot_answer_a_first_question_ends_the_command_after_the_usual_tries(
    console: Console, reply: FakeReply, asked: int, words: Sequence[str]
) -> None:
    console.script = lambda _request: reply
    said = console("run", *GAME, *MODEL, "--base-url", "ENDPOINT", "--request-timeout-s", "0.3")
    refused(said, "policy chat:m at http://127.0.0.1:", *words)
    assert len(said.requests) == asked
    assert not (console.folder / "runs").exists()


@pytest.mark.slow
def test_one_that_failed_once_is_asked_again_and_plays(console: Console) -> None:
    console.script = lambda request: failing(500) if request.number == 1 else None
    said = console.run("--seeds", "0:1")
    assert (said.code, len(said.requests), said.policy_calls["tries"]) == (0, 8, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (failing(503, "loading the model"), ["no answer", "HTTP 503: loading the model", "the run starts"]),
        (failing(429, "slow down"), ["HTTP 429: slow down", "the run starts"]),
        (completion("", finish_reason="length"), ["cut_off", "finish reason length", "the run starts"]),
        (completion("", finish_reason="content_filter"), ["refused", "content_filter", "the run starts"]),
    ],
)
def test_one_that_is_only_busy_or_says_nothing_to_it_is_told_of_and_the_run_starts(
    console: Console, reply: FakeReply, words: Sequence[str]
) -> None:
    first = 2 if reply.status != 200 else 1
    console.script = lambda request: reply if request.number <= first else None
    said = console.run("--seeds", "0:1")
    events = [json.loads(line) for line in said.out.splitlines()]
    assert (said.code, len(said.requests)) == (0, first + 6)
    assert [event["event"] for event in events][:2] == ["launch", "note"]
    assert [word for word in ("policy chat:m at http://127.0.0.1:", *words) if word not in events[1]["text"]] == []


def test_without_an_endpoint_nobody_can_be_asked(console: Console) -> None:
    refused(console("run", *GAME, *MODEL), "chat:m", "--base-url", "--policy-base-url")


def test_a_dry_run_counts_what_policies_take(console: Console) -> None:
    words = ("--policy", "chat:gpt-4o-mini", "--observe", "frame", "--seeds", "0:5", "--dry-run", "--json")
    said = console("run", *GAME, *words)
    told = said.done
    assert (said.code, told["policy_calls_at_most"], said.requests) == (0, 30, ())
    (policy,) = told["policies"]
    assert (policy["model"], policy["calls"], policy["tokens_out"]) == ("gpt-4o-mini", 30, 30 * 4)
    assert policy["tokens_in"] > 30 * 1_000
    assert policy["usd"] == pytest.approx((policy["tokens_in"] * 0.15 + policy["tokens_out"] * 0.60) / 1e6)


def test_settings_stand_in_the_file_and_in_the_identity(console: Console) -> None:
    (console.folder / "run.toml").write_text('policy = ["chat:m"]\nobserve = "both"\nanswer = "json"\nhistory = 3\n')
    words = ("run.toml", "--base-url", "ENDPOINT", "--dry-run", "--json", "--scenario", "defend_the_center")
    ids = {console("run", *words, *more).done["run_id"] for more in ((), ("--history", "2"), ("--answer", "plain"))}
    assert len(ids) == 3
    elsewhere = ("--policy-base-url", "http://127.0.0.1:9/v1")
    assert console("run", *words, *elsewhere).done["run_id"] in ids


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--observe", "sound"), ["--observe", "sound", "text, frame, both"]),
        (("--answer", "morse"), ["--answer", "morse", "letters, json, plain"]),
        (("--observe", "frame", "--frames", "none"), ["--observe frame", "--frames cannot be none"]),
        (("--history", "-1"), ["--history", "-1"]),
        (("--history", "1", "--history-frames", "2", "--observe", "both"), ["--history-frames is 2", "--history is 1"]),
        (("--history", "1", "--history-frames", "1"), ["--history-frames", "text has no pictures"]),
        (("--policy-temperature", "-1"), ["--policy-temperature", "-1"]),
        (("--policy-max-tokens", "0"), ["--policy-max-tokens", "0"]),
        (("--policy-base-url", "ftp://x"), ["ftp://x", "http(s)://"]),
        (("--policy-base-url", "http://me:secret@x/v1"), ["credentials"]),
        (("--policy", "chat"), ["chat:MODEL"]),
        (("--budget-usd", "1"), ["no price is known for m"]),
    ],
)
def test_bad_settings_are_one_line(console: Console, words: Sequence[str], named: Sequence[str]) -> None:
    policy = () if "--policy" in words else ("--policy", "chat:m")
    refused(console("run", *GAME, *policy, "--base-url", "ENDPOINT", *words), *named)


@pytest.mark.slow
def test_the_prompt_is_part_of_who_plays(console: Console) -> None:
    console.script = lambda _request: lettered("A", {"A": 0.9})
    console.run("--seeds", "0:1")
    record = json.loads((console.folder / "runs/r/run.json").read_text())
    (who,) = record["identity"]["policies"].values()
    assert who["settings"]["prompt"]["sha256"] == chat_prompt().ref.sha256
    assert who["model"] == "m"
    assert "127.0.0.1" not in json.dumps(record["identity"])
