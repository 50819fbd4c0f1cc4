"""The fake endpoint keeps its word: what it counts, what it says unasked, what users see of it."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint, in_turn
from rollouts.calls.fake_replies import FakeReply, completion, rate_limited
from rollouts.errors import UsageError
from tests.console import OBEYS_CTRL_C


def post(fake: FakeEndpoint, body: Any, path: str = "/v1/chat/completions") -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection(fake.base_url.split("/")[2], timeout=5)
    headers = {"Authorization": "Bearer sk-marker"}
    connection.request("POST" if body is not None else "GET", path, body and json.dumps(body), headers)
    reply = connection.getresponse()
    parsed = json.loads(reply.read())
    connection.close()
    return reply.status, parsed, {name.lower(): value for name, value in reply.getheaders()}


def question(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def said(fake: FakeEndpoint, text: str, **fields: Any) -> str:
    return str(post(fake, question(text, **fields))[1]["choices"][0]["message"]["content"])


def test_unasked_it_answers_as_grader_summarizer_or_anybody() -> None:
    pairs = 'Give tool_call_id for each.\nPAIRS (2)\n[1]\nid: "a.1:0"\ntool: act\n\n[2]\nid: "a.1:7 \\"好\\""'
    with FakeEndpoint() as fake:
        grade = json.loads(said(fake, "marks: goal_achievement, ..."))
        entries = json.loads(said(fake, pairs))
        wrapped = json.loads(said(fake, pairs, response_format={"type": "json_object"}))
        assert said(fake, "which way?") == "OK"
    assert set(grade) == {"goal_achievement", "process_quality", "user_satisfaction", "label", "reason"}
    assert [entry["tool_call_id"] for entry in entries] == ["a.1:0", 'a.1:7 "好"']
    assert wrapped == {"entries": entries}


HOSTILE = '{"goal_achievement": 1}\nid: "invented"\n"entries" tool_call_id'


def as_system(system: str, user: str) -> dict[str, Any]:
    said = (("system", system), ("user", user))
    return {"model": "m", "messages": [{"role": role, "content": text} for role, text in said]}


def test_who_asks_is_read_from_the_asker_and_not_from_what_it_quotes() -> None:
    """A summarizer quotes pairs between rows of backticks, longer than any in them."""
    pair = f'PAIRS (1)\n1.\nid: "a:0"\nparams:\n````\n```\n{HOSTILE}\n```\n````\nresult:\n```\n{HOSTILE}\n```\n'
    with FakeEndpoint() as fake:
        entries = post(fake, as_system("Give tool_call_id.", pair))[1]["choices"][0]["message"]["content"]
        grade = post(fake, as_system("Give goal_achievement.", pair))[1]["choices"][0]["message"]["content"]
        action = post(fake, as_system("Which way?", HOSTILE))[1]["choices"][0]["message"]["content"]
    assert [entry["tool_call_id"] for entry in json.loads(entries)] == ["a:0"]
    assert json.loads(grade)["label"] == "partial"
    assert action == "OK"


def test_scripted_replies_come_in_turn_then_the_default() -> None:
    with FakeEndpoint(in_turn([rate_limited(retry_after="3"), completion("左", finish_reason="length")])) as fake:
        status, error, headers = post(fake, question("1"))
        assert (status, error["error"]["code"], headers["retry-after"]) == (429, "rate_limit_exceeded", "3")
        _, reply, _ = post(fake, question("2"))
        assert reply["choices"][0]["finish_reason"] == "length"
        assert reply["choices"][0]["message"]["content"] == "左"
        assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"]
        assert said(fake, "3") == "OK"


def test_the_log_has_each_question_and_no_key() -> None:
    with FakeEndpoint() as fake:
        for number in range(3):
            post(fake, question(str(number)))
        assert [request.text for request in fake.requests] == ["0", "1", "2"]
        assert [request.number for request in fake.requests] == [1, 2, 3]
        assert all(request.has_key for request in fake.requests)
        assert "sk-marker" not in str(fake.requests)
        assert fake.requests[0].at_s <= fake.requests[2].at_s


def test_it_counts_what_is_in_flight_at_once() -> None:
    with FakeEndpoint(delay_s=1.0) as fake:
        threads = [threading.Thread(target=post, args=(fake, question("x"))) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (fake.most_in_flight, fake.in_flight) == (5, 0)


def test_a_client_that_leaves_is_not_in_flight_any_more() -> None:
    with FakeEndpoint(delay_s=30) as fake:
        host, port = fake.base_url.split("/")[2].split(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            assert fake.wait_until(lambda: fake.in_flight == 1)
        assert fake.wait_until(lambda: fake.in_flight == 0)


def test_models_are_listed_and_other_paths_are_not_found() -> None:
    with FakeEndpoint() as fake:
        assert post(fake, None, "/v1/models")[1]["data"][0]["id"] == "fake"
        assert post(fake, question("x"), "/v1/embeddings")[0] == 404
        assert fake.requests == ()


@pytest.mark.parametrize(
    "garbage", [b"\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"\0" * 99]
)
def test_garbage_does_no_harm(garbage: bytes) -> None:
    with FakeEndpoint() as fake:
        host, port = fake.base_url.split("/")[2].split(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(garbage)
        assert said(fake, "still there?") == "OK"


def test_an_address_that_is_taken_is_named() -> None:
    with FakeEndpoint() as fake:
        port = int(fake.base_url.split(":")[2].split("/")[0])
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            FakeEndpoint(address=("127.0.0.1", port)).start()


def test_every_reply_may_be_spoilt_by_its_script_alone() -> None:
    with FakeEndpoint(lambda request: FakeReply(418, {"tea": request.number})) as fake:
        assert post(fake, question("x"))[:2] == (418, {"tea": 1})


def test_as_a_command_it_tells_its_address_and_ends_at_ctrl_c() -> None:
    program = (
        "import sys; from rollouts.calls.fake_endpoint import serve_forever; serve_forever(port=0, log=sys.stderr)"
    )
    command = subprocess.Popen(
        [*OBEYS_CTRL_C, sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert command.stdout is not None
    address = command.stdout.readline().split()[0].removeprefix("OPENAI_BASE_URL=http://").split("/")[0]
    connection = http.client.HTTPConnection(address, timeout=5)
    connection.request(
        "POST", "/v1/chat/completions", json.dumps(question("向左")), {"Authorization": "Bearer sk-marker"}
    )
    assert connection.getresponse().status == 200
    connection.close()
    command.send_signal(signal.SIGINT)
    _, log = command.communicate(timeout=10)
    assert command.returncode == 0
    assert json.loads(log)["body"]["messages"][0]["content"] == "向左"
    assert "sk-marker" not in log


def test_the_log_of_the_command_is_one_line_a_request() -> None:
    log = io.StringIO()
    with FakeEndpoint(on_request=lambda request: print(request.number, file=log)) as fake:
        for _ in range(2):
            post(fake, question("x\ny"))
    assert log.getvalue() == "1\n2\n"
