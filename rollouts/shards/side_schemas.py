"""The side tables' Arrow schemas: grades, summaries, credit, calls, feedback. Beside the steps, keyed by episode.

A column that a row does not use is null, never absent. A new column is a new `SCHEMA_VERSION`.
"""

from __future__ import annotations

from rollouts.shards.schemas import FLAG, INT, KEY, NUM, NUMBERS, STR, STRINGS, TIME, make_schema

GRADES = make_schema(
    [
        *KEY,
        ("unit", INT),
        ("grading", INT),
        ("repeat", INT),
        ("source", STR),
        ("grader_id", STR),
        ("status", STR),
        ("cause", STR),
        ("detail", STR),
        ("goal_achievement", NUM),
        ("process_quality", NUM),
        ("user_satisfaction", NUM),
        ("label", STR),
        ("reason", STR),
        ("flags", STRINGS),
        ("cut", STR),
        ("language", STR),
        ("prompt_id", STR),
        ("prompt_version", INT),
        ("prompt_sha256", STR),
        ("model", STR),
        ("call_id", STR),
        ("n_calls", INT),
        ("n_feedback", INT),
        ("feedback_sha256", STR),
        ("graded_at", TIME),
    ]
)
"""A row a grading of an episode. Key: (episode_id, grading, repeat) within one grader_id, across runs with run_id.
`grading` counts from 0: later ones stand beside the earlier, the highest counts. `repeat` counts equal questions.
`source`: llm, explicit or heuristic; never pooled. `status`: graded or ungraded (then `cause` and `detail`, and no
axes). Axes in [-1, 1], null where absent. `cut` is JSON: what the grader did not see. `model` as it answered;
`call_id` is the row of `calls` that gave the verdict. `feedback_sha256` names the feedback read; null: none."""

SUMMARIES = make_schema(
    [
        *KEY,
        ("unit", INT),
        ("span", INT),
        ("first_tick", INT),
        ("decisions", INT),
        ("source", STR),
        ("summarizer_id", STR),
        ("tool_call_id", STR),
        ("timestamp", STR),
        ("tool_call", STR),
        ("summary", STR),
        ("score", NUM),
        ("status", STR),
        ("cause", STR),
        ("flags", STRINGS),
        ("language", STR),
        ("prompt_id", STR),
        ("prompt_version", INT),
        ("prompt_sha256", STR),
        ("summarized_at", TIME),
    ]
)
"""A row an offload entry. Key: (episode_id, span) within one summarizer_id; spans count from 0. A degraded entry that
was asked for again stays, and the row with the latest `summarized_at` counts. `tool_call_id` and
`timestamp` are the pair's own. `score` is 0-10, null where `status` is degraded (then `cause`; `summary` holds the
beginning of the result). `source` is llm."""

CREDIT = make_schema(
    [
        *KEY,
        ("unit", INT),
        ("tick", INT),
        ("grading", INT),
        ("repeat", INT),
        ("source", STR),
        ("credit_id", STR),
        ("grader_id", STR),
        ("rule", STR),
        ("gamma", NUM),
        ("weight_goal", NUM),
        ("weight_process", NUM),
        ("weight_satisfaction", NUM),
        ("r", NUM),
        ("alpha", NUM),
        ("value", NUM),
    ]
)
"""A row a decision of a graded episode. Key: (episode_id, tick, grading, repeat) within one credit_id; the highest
grading counts. `r` is the grade's R under the weights; `value` is V[tick] in [-1, 1]. `repeat` is 0: later repeats
measure a grader and teach nothing. The weights are null where R is satisfaction alone (source explicit)."""

CALLS = make_schema(
    [
        *KEY,
        ("unit", INT),
        ("call_id", STR),
        ("kind", STR),
        ("who", STR),
        ("request_sha256", STR),
        ("grading", INT),
        ("repeat", INT),
        ("requested_model", STR),
        ("validated", FLAG),
        ("reused_call_id", STR),
        ("status", STR),
        ("cause", STR),
        ("detail", STR),
        ("error_kind", STR),
        ("error", STR),
        ("content", STR),
        ("reasoning", STR),
        ("refusal", STR),
        ("finish_reason", STR),
        ("model", STR),
        ("system_fingerprint", STR),
        ("request_id", STR),
        ("tokens_in", INT),
        ("tokens_out", INT),
        ("tokens_cached", INT),
        ("tries", INT),
        ("tries_ms", NUMBERS),
        ("queue_ms", NUM),
        ("answer_ms", NUM),
        ("pause_ms", NUM),
        ("total_ms", NUM),
        ("cost_usd", NUM),
        ("budget_tokens", INT),
        ("budget_usd", NUM),
        ("adjustments", STRINGS),
        ("ended_at", TIME),
    ]
)
"""A row a call to a model, whatever came of it. Key: call_id. `kind`: grade, summarize or decide; `who`: the id of who
asked (a grader, a summarizer, a policy). `request_sha256` is the key of the whole request with `grading` and `repeat`:
a later equal request is answered by a `validated` reply and gets a row with `reused_call_id`, without tries, tokens or
cost; a policy's replies are never used again. `status`: validated, refused (the reply cannot be used: `cause`),
answered (a policy's: see its row in `steps`), failed (no reply: `error_kind`, `error`) or abandoned (sent, and whoever
sent it was stopped or died before it was judged; its tokens are unknown). `budget_tokens` and `budget_usd` are what the
call counts in the run's budget: where the endpoint did not say what a try cost, the most that it was expected to. The
HTTP requests of a run are the sum of `tries`. Times: `queue_ms` waiting for the run's limits, `tries_ms` of each try,
`answer_ms` of the one that was answered, `pause_ms` between tries, `total_ms` altogether."""

FEEDBACK = make_schema(
    [
        *KEY,
        ("source", STR),
        ("channel", STR),
        ("polarity", STR),
        ("magnitude", NUM),
        ("text", STR),
        ("time", TIME),
    ]
)
"""A row a piece of what people said after an episode; `source` is people. Equal rows are stored once."""

SIDE_SCHEMAS = {"grades": GRADES, "summaries": SUMMARIES, "credit": CREDIT, "calls": CALLS, "feedback": FEEDBACK}
GRADES_EXEMPT = frozenset({"run_id", "call_id", "graded_at"})
SUMMARIES_EXEMPT = frozenset({"run_id", "timestamp", "summarized_at"})
CREDIT_EXEMPT = frozenset({"run_id"})
"""Columns that may differ between two runs of one configuration with equal replies: wall clock and names of calls.
`calls` differ wherever something died; compare its validated replies by `request_sha256`."""
SIDE_EXEMPT = {"grades": GRADES_EXEMPT, "summaries": SUMMARIES_EXEMPT, "credit": CREDIT_EXEMPT}
