"""The tables' Arrow schemas. Whole from the start, so that all shards ever written fit together.

A column that a run does not use is null, never absent. A new column is a new `SCHEMA_VERSION`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

import pyarrow as pa
from pyarrow import parquet as pq

SCHEMA_VERSION = "3"
"""2: `waited_tics` in both tables, `probability_bound` in `steps`, `tries_ms` in `calls`."""

STR, INT, NUM, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TIME = pa.timestamp("us", tz="UTC")
STRINGS = pa.list_(STR)
NUMBERS = pa.list_(NUM)
FRAME = pa.struct([("bytes", pa.binary()), ("path", STR)])
NAMED_NUMBERS = pa.list_(pa.struct([("key", STR), ("value", NUM)]))
"""A map by another name: Parquet stores the same, and `datasets` reads it (it has no map type)."""
NAMED_COUNTS = pa.list_(pa.struct([("key", STR), ("value", INT)]))
NAMED_STRINGS = pa.list_(pa.struct([("key", STR), ("value", STR)]))

KEY = [
    ("run_id", STR),
    ("episode_id", STR),
    ("scenario", STR),
    ("rubric", STR),
    ("policy", STR),
    ("seed", INT),
    ("episode_index", INT),
]


def make_schema(
    fields: Sequence[tuple[str, pa.DataType]], pictures: tuple[str, ...] = (), lists: tuple[str, ...] = ()
) -> pa.Schema:
    """A schema whose `pictures` (and `lists` of them) are pictures to `datasets`: RGB, for a palette PNG opens as
    indices."""
    picture = {"_type": "Image", "mode": "RGB"}
    features: dict[str, object] = dict.fromkeys(pictures, picture)
    features |= {name: {"_type": "List", "feature": picture} for name in lists}
    hugging_face = json.dumps({"info": {"features": features}})
    return pa.schema(list(fields), metadata={"schema_version": SCHEMA_VERSION, "huggingface": hugging_face})


STEPS = make_schema(
    [
        *KEY,
        ("tick", INT),
        ("game_tic", INT),
        ("tics", INT),
        ("state", STR),
        ("policy_text", STR),
        ("frame", FRAME),
        ("teacher_action", STR),
        ("model_action", STR),
        ("effective_action", STR),
        ("acted_by", STR),
        ("asked", FLAG),
        ("out_of_schema", FLAG),
        ("schema_error", STR),
        ("error", STR),
        ("parse_rule", STR),
        ("options", STRINGS),
        ("options_shown", STRINGS),
        ("probabilities", NUMBERS),
        ("probability_bound", NUM),
        ("option_mass", NUM),
        ("confidence", NUM),
        ("latency_ms", NUM),
        ("waited_tics", INT),
        ("messages", STR),
        ("raw_reply", STR),
        ("finish_reason", STR),
        ("reply_tokens", STRINGS),
        ("reply_logprobs", NUMBERS),
        ("tokens_in", INT),
        ("tokens_out", INT),
        ("model_version", STR),
        ("health", INT),
        ("ammo", INT),
        ("kills", INT),
        ("health_after", INT),
        ("ammo_after", INT),
        ("kills_after", INT),
        ("n_visible", INT),
        ("events", STRINGS),
        ("variables", NAMED_NUMBERS),
        ("reward", NUM),
        ("terminated", FLAG),
        ("truncated", FLAG),
        ("decided_at", TIME),
    ],
    pictures=("frame",),
)
"""A row a decision. Key: (episode_id, tick), across runs with run_id. `frame` and the counters without `_after` are
what the policy saw, before the action. `probabilities` stand in the order of `options`; an option that the policy did
not name is null there, and the whole is null where it named none; `probability_bound` is then the most that each of
those can have. `latency_ms` is the time of the request that was answered, alone: queue, failed tries and pauses stand
in `calls`. `waited_tics` passed, in real time, before the action was sent; `reward` and `events` are theirs too. Where
the episode ended in them nothing was sent: `effective_action` and `acted_by` are null."""

EPISODES = make_schema(
    [
        *KEY,
        ("unit", INT),
        ("metric_name", STR),
        ("metric", NUM),
        ("steps", INT),
        ("tics", INT),
        ("step_cap", INT),
        ("n_out_of_schema", INT),
        ("out_of_schema_by_cause", NAMED_COUNTS),
        ("latency_ms_p50", NUM),
        ("latency_ms_p95", NUM),
        ("waited_tics", INT),
        ("total_reward", NUM),
        ("status", STR),
        ("stage", STR),
        ("cause", STR),
        ("end_reason", STR),
        ("terminated", FLAG),
        ("truncated", FLAG),
        ("trajectory_hash", STR),
        ("frames_hash", STR),
        ("final_state", STR),
        ("final_frame", FRAME),
        ("steps_shard", STR),
        ("steps_shard_rows", INT),
        ("steps_shard_bytes", INT),
        ("steps_shard_sha256", STR),
        ("actor", STR),
        ("node", STR),
        ("tries", INT),
        ("versions", NAMED_STRINGS),
        ("started_at", TIME),
        ("ended_at", TIME),
    ],
    pictures=("final_frame",),
)
"""A row an episode, its status `completed` or `failed` (then `stage` and `cause` say why and the numbers are null).
Of two rows of one episode the one with the higher `unit` counts. `steps` counts decisions; `steps_shard` names the
file in `steps/` with the rows of all the unit's episodes, null where there are none. `tries` counts earlier failed
tries."""

PLAN = make_schema([("unit", INT), *KEY[1:], ("tries", INT)])
"""A row an episode, in the order in which they are planned."""

STEPS_EXEMPT = frozenset({"run_id", "latency_ms", "decided_at"})
"""Columns of `steps` that may differ between two runs of one configuration: wall clock and the run's own name."""
EPISODES_EXEMPT = frozenset(
    {"run_id", "latency_ms_p50", "latency_ms_p95", "steps_shard_bytes", "steps_shard_sha256"}
    | {"actor", "node", "tries", "started_at", "ended_at"}
)
"""The same for `episodes`: wall clock, placement, and the hashes of shards that hold such columns."""

FRAME_COLUMNS = frozenset({"frame.bytes", "final_frame.bytes"})
_TEXT_COLUMNS = frozenset(
    {"state", "policy_text", "messages", "raw_reply", "error", "cause", "final_state", "reply_tokens.list.element"}
    | {"reason", "detail", "tool_call", "summary", "content", "reasoning", "refusal", "text"}
)
_UNIQUE_VALUES = frozenset(
    {"state", "policy_text", "messages", "raw_reply", "decided_at", "frame.path", "final_state"}
    | {
        "reason",
        "content",
        "reasoning",
        "summary",
        "tool_call_id",
        "timestamp",
        "call_id",
        "request_sha256",
        "request_id",
    }
)


@cache
def leaves(schema: pa.Schema) -> tuple[str, ...]:
    """The Parquet leaf columns of a schema, as writer settings name them (`options.list.element`)."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    parquet = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return tuple(parquet.column(i).path for i in range(len(parquet.names)))


def open_writer(path: str, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer with this project's settings: pictures as they are, texts zstd, the rest snappy, a page index.

    Pictures are compressed already. zstd sets itself up anew for each column of each row group, which for some forty
    short columns costs more than it saves. Never use the writer in a `with` statement: that would give an interrupted
    file a valid footer.
    """
    names = leaves(schema)
    small = [name for name in names if name not in FRAME_COLUMNS]
    return pq.ParquetWriter(
        path,
        schema,
        compression={name: _codec(name) for name in names},
        use_dictionary=[name for name in small if name not in _UNIQUE_VALUES],
        write_statistics=small,
        write_page_index=True,
    )


def _codec(leaf: str) -> str:
    if leaf in FRAME_COLUMNS:
        return "NONE"
    return "ZSTD" if leaf in _TEXT_COLUMNS else "SNAPPY"
