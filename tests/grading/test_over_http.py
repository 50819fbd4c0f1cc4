"""Grader and summarizer through the real client, against a scripted server on loopback."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from grading.grade import Grade
from grading.grader import GraderSettings, GradingTask, grade_task
from grading.pairs import ToolPair
from grading.summarizer import SummarizerSettings, summarize
from grading.transcript import Exchange, HostAgent, conversation
from rollouts.calls.chat import ChatClient
from rollouts.calls.endpoint import CallSettings, Endpoint
from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import FakeReply, completion, failing, unsupported
from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Limits
from rollouts.calls.replies import Cause

TASK = GradingTask(conversation(HostAgent("模型"), [Exchange("继续", "好的")], standing_ask="保持存活。"))


def client(fake: FakeEndpoint) -> ChatClient:
    settings = CallSettings(time_limit_s=30, tries=2, pause_s=0.001, pause_cap_s=0.01)
    return ChatClient(Endpoint(fake.base_url), LocalLimiter(Limits()), settings)


def grade(fake: FakeEndpoint) -> Grade:
    return asyncio.run(grade_task(TASK, GraderSettings("judge", language="zh"), client(fake)))


def test_a_grade_over_http() -> None:
    with FakeEndpoint() as fake:
        given = grade(fake)
    assert (given.graded, given.model) == (True, "judge")
    assert "保持存活。" in fake.requests[0].text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "cause", "requests"),
    [
        (FakeReply(body={"choices": []}), Cause.EMPTY, 2),
        (FakeReply(body={"choices": [{"index": 0, "finish_reason": "stop", "message": None}]}), Cause.EMPTY, 2),
        (completion("", finish_reason="content_filter"), Cause.FILTERED, 2),
        (completion(None, message={"refusal": "I will not."}), Cause.REFUSED, 2),
        (completion("I can't help with that"), Cause.REFUSED, 2),
        (completion(" \n "), Cause.EMPTY, 2),
        (completion('{"goal_achievement": 0.5', finish_reason="length"), Cause.CUT_OFF, 2),
        (failing(503), Cause.ENDPOINT_ERROR, 2),
        (failing(400, "context length exceeded"), Cause.ENDPOINT_ERROR, 1),
    ],
)
def test_each_kind_of_refusal_has_its_cause_and_at_most_one_more_question(
    reply: FakeReply, cause: Cause, requests: int
) -> None:
    with FakeEndpoint(lambda _request: reply) as fake:
        given = grade(fake)
    assert (given.status, given.cause, len(fake.requests)) == ("ungraded", cause, requests)


def test_an_endpoint_without_schemas_still_grades() -> None:
    def script(request: Any) -> FakeReply | None:
        return unsupported("response_format") if "response_format" in request.body else None

    with FakeEndpoint(script) as fake:
        given = grade(fake)
    assert given.graded
    assert given.calls[0].reply.adjustments != ()


def test_summaries_over_http() -> None:
    pairs = [ToolPair(f"运行:{n}", "2026-01-02T03:04:05Z", "read", {"文件": n}, "内容") for n in range(7)]
    with FakeEndpoint() as fake:
        found = asyncio.run(summarize(pairs, "目标", SummarizerSettings("writer", language="zh"), client(fake)))
    assert [entry.tool_call_id for entry in found.entries] == [pair.id for pair in pairs]
    assert {entry.status for entry in found.entries} == {"ok"}
    told = [json.dumps(request.body, ensure_ascii=False).count("运行:") for request in fake.requests]
    assert sorted(told) == [2, 5], "two batches, in whatever order they arrive"
