"""The grader: one question to a model about one task, asked again once if the reply cannot be used.

Knows nothing of endpoints (a `Call` is injected), storage or games. It never sees weights: R is computed on read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from grading.feedback import MAX_ROWS, FeedbackRow, feedback_block
from grading.grade import Grade
from grading.judged import JudgedCall, Observer, ignore
from grading.prompt_files import Prompt, load_prompt
from grading.replies import AXES, LABELS, VERDICT_KEYS, Verdict, read_verdict
from grading.task_summary import NO_STAND_INS, Caps, Cuts, StandIn, TaskSummary, task_summary
from grading.transcript import Transcript
from rollouts.calls.chat_records import Call, ChatMessage, ChatRequest, ReplySchema
from rollouts.calls.replies import Cause, ReplyRefused
from rollouts.errors import UsageError
from rollouts.naming import slug

Presentation = Literal["forward", "reversed", "padded"]
"""`reversed` shows the axes, the labels and the two blocks in the opposite order, `padded` adds lines that say nothing:
the same task graded in two presentations tells how far order and length sway a judge (`tally.disagreement`)."""
Reads = Literal["transcript", "summaries"]
NEVER_ASKED_AGAIN = frozenset({Cause.ENDPOINT_ERROR})
_FILLER_LINES = 60


@dataclass(frozen=True, slots=True)
class GraderSettings:
    """Who grades and how. All of it but `max_tokens`, `use_schema` and `seed` is the grader's identity.

    `max_tokens` is doubled when a cut-off reply is asked for again. `summarizer_id` names the entries that are read
    where `reads` is `summaries`. `own_prompt` is asked in the place of ours, which `language` names.
    """

    model: str
    language: str = "en"
    reads: Reads = "transcript"
    summarizer_id: str | None = None
    caps: Caps = field(default_factory=Caps)
    presentation: Presentation = "forward"
    temperature: float | None = 0.0
    max_tokens: int = 2_048
    use_schema: bool = True
    seed: int | None = None
    own_prompt: Prompt | None = None

    def __post_init__(self) -> None:
        load_prompt("grader", self.language)
        for name, value, choices in (
            ("presentation", self.presentation, get_args(Presentation)),
            ("reads", self.reads, get_args(Reads)),
        ):
            if value not in choices:
                raise UsageError(f"grader {name} {value!r} is not known, choose one of: {', '.join(choices)}")

    @property
    def prompt(self) -> Prompt:
        return self.own_prompt or load_prompt("grader", self.language)

    def identity(self) -> dict[str, Any]:
        """What the id stands for, ready for the `.json` beside the grades (with the whole prompt text)."""
        return {
            "kind": "llm",
            "model": self.model,
            "prompt": asdict(self.prompt.ref),
            "prompt_text": self.prompt.text,
            "reads": self.reads,
            "summarizer_id": self.summarizer_id if self.reads == "summaries" else None,
            "caps": asdict(self.caps),
            "presentation": self.presentation,
            "temperature": self.temperature,
        }

    @property
    def grader_id(self) -> str:
        """Slug of the model and 8 hex of the identity; weights are no part of it."""
        return identified(self.model, self.identity())


def identified(name: str, identity: Mapping[str, Any]) -> str:
    """`<slug>-<8 hex of the identity>`: a folder name."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    return f"{slug(name)}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class GradingTask:
    """One task to grade. `grading` counts the gradings of the same episode from 0, `repeat` equal questions."""

    transcript: Transcript
    feedback: Sequence[FeedbackRow] = ()
    stand_ins: Mapping[str, StandIn] = field(default_factory=lambda: NO_STAND_INS)
    grading: int = 0
    repeat: int = 0


async def grade_task(task: GradingTask, settings: GraderSettings, call: Call, observe: Observer = ignore) -> Grade:
    """The grade of `task`, ungraded with a cause where neither reply can be used.

    `BudgetSpent` and `RunStopped` from `call` pass through: the episode then stays owed.
    """
    prompt, summary = settings.prompt, _summary(task, settings)
    request = grader_request(task, summary, settings)
    calls = [await _ask(request, call, observe)]
    if calls[0][1] is None and calls[0][0].cause not in NEVER_ASKED_AGAIN:
        calls.append(await _ask(again(request, calls[0][0], prompt), call, observe))
    return _grade(calls, summary.cuts, prompt)


async def _ask(request: ChatRequest, call: Call, observe: Observer) -> tuple[JudgedCall, Verdict | None]:
    reply = await call(request)
    try:
        verdict, judged = read_verdict(reply), JudgedCall(request, reply, True)
    except ReplyRefused as error:
        verdict, judged = None, JudgedCall(request, reply, False, error.cause, error.detail)
    observe(judged)
    return judged, verdict


def _grade(calls: Sequence[tuple[JudgedCall, Verdict | None]], cuts: Cuts, prompt: Prompt) -> Grade:
    last, verdict = calls[-1]
    told = Grade(
        source="llm",
        status="ungraded",
        cause=last.cause,
        detail=last.detail,
        flags=("asked_again",) if len(calls) > 1 else (),
        cuts=cuts,
        prompt=prompt.ref,
        model=last.reply.model,
        calls=tuple(judged for judged, _ in calls),
    )
    if verdict is None:
        return told
    return replace(
        told,
        status="graded",
        goal_achievement=verdict.goal_achievement,
        process_quality=verdict.process_quality,
        user_satisfaction=verdict.user_satisfaction,
        label=verdict.label,
        reason=verdict.reason,
        flags=told.flags + verdict.flags,
    )


def _summary(task: GradingTask, settings: GraderSettings) -> TaskSummary:
    stand_ins = task.stand_ins if settings.reads == "summaries" else NO_STAND_INS
    summary = task_summary(task.transcript, settings.caps, stand_ins)
    left_out = max(0, len(task.feedback) - MAX_ROWS)
    return replace(summary, cuts=replace(summary.cuts, feedback_rows_left_out=left_out))


def grader_request(task: GradingTask, summary: TaskSummary, settings: GraderSettings) -> ChatRequest:
    """The first request for a task; a pure function of its arguments, so that it can be counted and cached."""
    prompt = settings.prompt
    backwards = settings.presentation == "reversed"
    axes = prompt.sections["axes"].split("\n---\n")
    labels = LABELS[::-1] if backwards else LABELS
    blocks = _blocks(summary, task.feedback, settings, prompt)
    system = prompt.fill("system", axes="\n".join(axes[::-1] if backwards else axes), labels=" | ".join(labels))
    user = prompt.fill("user", blocks="\n\n".join(blocks[::-1] if backwards else blocks))
    return ChatRequest(
        model=settings.model,
        messages=(ChatMessage("system", system), ChatMessage("user", user)),
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        schema=verdict_schema(labels) if settings.use_schema else None,
        repeat=task.repeat,
        grading=task.grading,
    )


def _blocks(
    summary: TaskSummary, feedback: Sequence[FeedbackRow], settings: GraderSettings, prompt: Prompt
) -> list[str]:
    said = feedback_block(feedback, prompt.sections["none"])
    blocks = [_block("TASK_SUMMARY", summary.text), _block("FEEDBACK", said)]
    if settings.presentation == "padded":
        blocks.append(_block("LAYOUT", "\n".join([prompt.sections["filler"]] * _FILLER_LINES)))
    return blocks


def _block(name: str, body: str) -> str:
    return f"===== {name} =====\n{body}\n===== END OF {name} ====="


def verdict_schema(labels: Sequence[str] = LABELS) -> ReplySchema:
    """The JSON schema of a verdict. Ranges are left to our own check: endpoints differ in what they accept."""
    properties: dict[str, Any] = {axis: {"type": "number"} for axis in AXES}
    properties |= {"label": {"type": "string", "enum": list(labels)}, "reason": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(VERDICT_KEYS),
        "additionalProperties": False,
    }
    return ReplySchema("verdict", schema)


def again(request: ChatRequest, refused: JudgedCall, prompt: Prompt) -> ChatRequest:
    """The same question with the reason why the reply to it could not be used."""
    cause = refused.cause or Cause.NOT_JSON
    detail = f"({refused.detail})" if refused.detail else ""
    *head, user = request.messages
    text = user.text + prompt.fill("again", cause=prompt.cause(cause), detail=detail)
    more = 2 if cause is Cause.CUT_OFF else 1
    tokens = None if request.max_tokens is None else request.max_tokens * more
    return replace(request, messages=(*head, replace(user, text=text)), max_tokens=tokens)
