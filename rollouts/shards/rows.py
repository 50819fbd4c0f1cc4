"""Turns records into rows in a schema's order, and rows into Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from rollouts.frames import frame_path
from rollouts.records import Decision, Episode, EpisodeFailure, EpisodeKey, Frame, PlannedEpisode, ShardFile, Unit
from rollouts.shards.schemas import FRAME

_JPEG = b"\xff\xd8"
Row = tuple[Any, ...]
Encode = Callable[[Frame], bytes]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where and how a unit was played; goes into each of its `episodes` rows."""

    unit: Unit
    run_id: str
    tics: int
    step_cap: int
    actor: str
    node: str
    versions: Mapping[str, str] = field(default_factory=dict)


def key_values(run_id: str, key: EpisodeKey) -> Row:
    return (run_id, key.episode_id, key.scenario, key.rubric, key.policy, key.seed, key.index)


def step_values(d: Decision, frame: bytes | None, tics: int, options: tuple[str, ...]) -> Row:
    """What follows the key, in the order of `STEPS`. The frame's place holds its bytes until the row is written."""
    seen, answer, after = d.snapshot, d.answer, d.transition
    named = [answer.probabilities.get(option) for option in options] if answer.probabilities else [None]
    probabilities = None if all(p is None for p in named) else named
    return (
        *(d.tick, seen.game_tic, tics, d.state, answer.policy_text, frame),
        *(d.teacher_action, answer.own, d.effective_action, d.acted_by, answer.asked),
        *(d.schema_error is not None, d.schema_error, d.error, answer.parse_rule),
        *(options, answer.options_shown, probabilities, answer.option_mass, answer.confidence, answer.latency_ms),
        d.waited_tics,
        *(answer.messages, answer.raw_reply, answer.finish_reason, answer.reply_tokens, answer.reply_logprobs),
        *(answer.tokens_in, answer.tokens_out, answer.model_version),
        *(seen.health, seen.ammo, seen.kills, after.health_after, after.ammo_after, after.kills_after),
        *(len(seen.things), after.events, _pairs(after.variables) or None, after.reward),
        *(d.terminated, d.truncated, d.decided_at),
    )


def text_bytes(decision: Decision) -> int:
    answer = decision.answer
    texts = (decision.state, answer.policy_text, answer.messages, answer.raw_reply)
    return sum(len(text) for text in texts if text)


def episode_values(
    record: Episode | EpisodeFailure,
    planned: PlannedEpisode,
    steps: ShardFile | None,
    provenance: Provenance,
    encode: Encode | None,
) -> Row:
    """A row of `episodes`."""
    shard = (steps.name, steps.rows, steps.bytes, steps.sha256) if steps else (None,) * 4
    return (
        *key_values(provenance.run_id, record.key),
        provenance.unit.number,
        *(_failure(record, provenance) if isinstance(record, EpisodeFailure) else _outcome(record, provenance, encode)),
        *shard,
        *(provenance.actor, provenance.node, planned.tries, _pairs(provenance.versions)),
        *(record.started_at, record.ended_at),
    )


def _outcome(record: Episode, provenance: Provenance, encode: Encode | None) -> Row:
    """From `metric_name` to `final_frame`, in the order of `EPISODES`."""
    final = encode(record.final_frame) if encode and record.final_frame else None
    return (
        *(record.metric_name, record.metric, record.steps, provenance.tics, provenance.step_cap),
        *(record.n_out_of_schema, _pairs(record.out_of_schema_by_cause)),
        *(record.latency_ms_p50, record.latency_ms_p95, record.waited_tics, record.total_reward),
        *("completed", None, None, record.end_reason, record.terminated, record.truncated),
        *(record.trajectory_hash, record.frames_hash, record.final_state, final),
    )


def _failure(record: EpisodeFailure, provenance: Provenance) -> Row:
    """The same columns of an episode that could not be played: no number is made up."""
    return (
        *(None, None, None, provenance.tics, provenance.step_cap),
        *(None, None),
        *(None, None, None, None),
        *("failed", record.stage, record.cause, None, None, None),
        *(None, None, None, None),
    )


def _pairs(mapping: Mapping[str, Any]) -> list[dict[str, Any]]:
    """In the order of the names, so that equal maps are equal rows."""
    return [{"key": key, "value": mapping[key]} for key in sorted(mapping)]


def make_table(rows: Sequence[Row], schema: pa.Schema, counter: str) -> pa.Table:
    """Rows in the schema's order as a table. A picture's path is made of the episode and the `counter` column."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        to_array(values, column.type) for values, column in zip(columns, schema, strict=True) if column.type != FRAME
    ]
    for at, column in enumerate(schema):
        if column.type == FRAME:
            ids, ticks = (columns[schema.get_field_index(name)] for name in ("episode_id", counter))
            arrays.insert(at, _pictures(columns[at], ids, ticks))
    return pa.Table.from_arrays(arrays, schema=schema)


def to_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """A column. Halves of characters, which no UTF-8 can hold, become U+FFFD."""
    try:
        return pa.array(values, type_)
    except UnicodeEncodeError:
        return pa.array(_encodable(values), type_)


def _encodable(value: Any) -> Any:
    """What a model replied, mended."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return [_encodable(item) for item in value] if isinstance(value, list | tuple) else value


def _pictures(pictures: Sequence[bytes | None], ids: Sequence[str], ticks: Sequence[int]) -> pa.Array:
    """The struct column from one joined buffer: several times faster than from Python dicts."""
    there = [picture is not None for picture in pictures]
    if not any(there):
        return pa.nulls(len(pictures), FRAME)
    offsets = np.zeros(len(pictures) + 1, np.int32)
    np.cumsum([len(picture or b"") for picture in pictures], out=offsets[1:])
    joined = pa.py_buffer(b"".join(picture or b"" for picture in pictures))
    data = pa.Array.from_buffers(pa.binary(), len(pictures), [None, pa.py_buffer(offsets), joined])
    named = zip(pictures, ids, ticks, strict=True)
    paths = pa.array(
        [None if picture is None else _picture_path(picture, of, tick) for picture, of, tick in named], pa.string()
    )
    mask = None if all(there) else pa.array([not here for here in there])
    return pa.StructArray.from_arrays([data, paths], fields=list(FRAME), mask=mask)


def _picture_path(picture: bytes, episode_id: str, tick: int) -> str:
    return frame_path(episode_id, tick, "jpeg" if picture.startswith(_JPEG) else "png")
