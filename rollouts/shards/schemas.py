"""The tables' Arrow schemas. Whole from the start, so that all shards ever written fit together.

A column that a run does not use is null, never absent. A new column is a new `SCHEMA_VERSION`.
"""

from __future__ import annotations

import json
from functools import cache

import pyarrow as pa
from pyarrow import parquet as pq

SCHEMA_VERSION = "1"

_STR, _INT, _NUM, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_STRINGS = pa.list_(_STR)
_NUMBERS = pa.list_(_NUM)
FRAME = pa.struct([("bytes", pa.binary()), ("path", _STR)])
NAMED_NUMBERS = pa.list_(pa.struct([("key", _STR), ("value", _NUM)]))
"""A map by another name: Parquet stores the same, and `datasets` reads it (it has no map type)."""
NAMED_COUNTS = pa.list_(pa.struct([("key", _STR), ("value", _INT)]))
NAMED_STRINGS = pa.list_(pa.struct([("key", _STR), ("value", _STR)]))

_KEY = [
    ("run_id", _STR),
    ("episode_id", _STR),
    ("scenario", _STR),
    ("rubric", _STR),
    ("policy", _STR),
    ("seed", _INT),
    ("episode_index", _INT),
]


def _schema(fields: list[tuple[str, pa.DataType]], pictures: tuple[str, ...] = ()) -> pa.Schema:
    """A schema whose `pictures` are pictures to `datasets`: RGB, for a palette PNG opens as indices."""
    features = {name: {"_type": "Image", "mode": "RGB"} for name in pictures}
    hugging_face = json.dumps({"info": {"features": features}})
    return pa.schema(fields, metadata={"schema_version": SCHEMA_VERSION, "huggingface": hugging_face})


STEPS = _schema(
    [
        *_KEY,
        ("tick", _INT),
        ("game_tic", _INT),
        ("tics", _INT),
        ("state", _STR),
        ("policy_text", _STR),
        ("frame", FRAME),
        ("teacher_action", _STR),
        ("model_action", _STR),
        ("effective_action", _STR),
        ("acted_by", _STR),
        ("asked", _FLAG),
        ("out_of_schema", _FLAG),
        ("schema_error", _STR),
        ("error", _STR),
        ("parse_rule", _STR),
        ("options", _STRINGS),
        ("options_shown", _STRINGS),
        ("probabilities", _NUMBERS),
        ("option_mass", _NUM),
        ("confidence", _NUM),
        ("latency_ms", _NUM),
        ("messages", _STR),
        ("raw_reply", _STR),
        ("finish_reason", _STR),
        ("reply_tokens", _STRINGS),
        ("reply_logprobs", _NUMBERS),
        ("tokens_in", _INT),
        ("tokens_out", _INT),
        ("model_version", _STR),
        ("health", _INT),
        ("ammo", _INT),
        ("kills", _INT),
        ("health_after", _INT),
        ("ammo_after", _INT),
        ("kills_after", _INT),
        ("n_visible", _INT),
        ("events", _STRINGS),
        ("variables", NAMED_NUMBERS),
        ("reward", _NUM),
        ("terminated", _FLAG),
        ("truncated", _FLAG),
        ("decided_at", _TIME),
    ],
    pictures=("frame",),
)
"""A row a decision. Key: (episode_id, tick), across runs with run_id. `frame` and the counters without `_after` are
what the policy saw, before the action. `probabilities` stand in the order of `options`; an option that the policy did
not name is null there, and the whole is null where it named none."""

EPISODES = _schema(
    [
        *_KEY,
        ("unit", _INT),
        ("metric_name", _STR),
        ("metric", _NUM),
        ("steps", _INT),
        ("tics", _INT),
        ("step_cap", _INT),
        ("n_out_of_schema", _INT),
        ("out_of_schema_by_cause", NAMED_COUNTS),
        ("latency_ms_p50", _NUM),
        ("latency_ms_p95", _NUM),
        ("total_reward", _NUM),
        ("status", _STR),
        ("stage", _STR),
        ("cause", _STR),
        ("end_reason", _STR),
        ("terminated", _FLAG),
        ("truncated", _FLAG),
        ("trajectory_hash", _STR),
        ("frames_hash", _STR),
        ("final_state", _STR),
        ("final_frame", FRAME),
        ("steps_shard", _STR),
        ("steps_shard_rows", _INT),
        ("steps_shard_bytes", _INT),
        ("steps_shard_sha256", _STR),
        ("actor", _STR),
        ("node", _STR),
        ("tries", _INT),
        ("versions", NAMED_STRINGS),
        ("started_at", _TIME),
        ("ended_at", _TIME),
    ],
    pictures=("final_frame",),
)
"""A row an episode, its status `completed` or `failed` (then `stage` and `cause` say why and the numbers are null).
Of two rows of one episode the one with the higher `unit` counts. `steps` counts decisions; `steps_shard` names the
file in `steps/` with the rows of all the unit's episodes, null where there are none. `tries` counts earlier failed
tries."""

PLAN = _schema([("unit", _INT), *_KEY[1:], ("tries", _INT)])
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
)
_UNIQUE_VALUES = frozenset({"state", "policy_text", "messages", "raw_reply", "decided_at", "frame.path", "final_state"})


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
