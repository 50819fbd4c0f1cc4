"""What goes into the page of single episodes, and what is left out so that it stays small.

index     a line an episode, with its grades: JSON
texts     an episode's decisions column by column: JSON, deflated, base64; opened when the episode is
pictures  its frames one after the other, base64
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.report.attention import Candidate, by_urgency, in_turns
from rollouts.report.episode_rows import EpisodeRows
from rollouts.report.judgements import Summary
from rollouts.report.pictures import small_pictures
from rollouts.report.reported_run import ReportedRun

MOST_LISTED = 3_000
TEXT_SHARE = 0.35
"""Of what the page may take beside plots and tables: for texts, at most. The rest is for pictures."""
LONGEST_TEXT = 4_000
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Part:
    """Base64 text of the page, under an id of its own."""

    id: str
    text: str


@dataclass(frozen=True)
class Embedded:
    """`index` is plain JSON values; `left_out` says in words what is not here."""

    index: Mapping[str, Any]
    parts: tuple[Part, ...]
    left_out: tuple[str, ...]


def embed(runs: Sequence[ReportedRun], most_bytes: int) -> Embedded:
    """The most urgent episodes first, until `most_bytes` are full. Errors: `StorageError`."""
    ordered = by_urgency(_candidates(runs))
    listed = ordered[:MOST_LISTED]
    index = _index(runs, listed)
    room = most_bytes - len(json.dumps(index))
    texts = _texts(runs, listed, int(room * TEXT_SHARE))
    pictures = _pictures(runs, listed, texts, room - sum(map(len, texts.values())))
    for number, entry in enumerate(index["episodes"]):
        entry["text"] = f"text-{number}" if number in texts else None
        entry["pictures"] = f"pictures-{number}" if number in pictures else None
    parts = [*_named("text", texts), *_named("pictures", pictures)]
    return Embedded(index, tuple(parts), tuple(_left_out(ordered, listed, texts, pictures)))


def _candidates(runs: Sequence[ReportedRun]) -> list[Candidate]:
    groups = [(number, group) for number, run in enumerate(runs) for group in run.groups]
    return [
        Candidate(run, place, numbers, runs[run].judgements.verdicts.get(numbers.row.episode_id, ()))
        for place, (run, group) in enumerate(groups)
        for numbers in group.episodes
    ]


def _index(runs: Sequence[ReportedRun], listed: Sequence[Candidate]) -> dict[str, Any]:
    return {
        "runs": [run.run_id for run in runs],
        "groups": [
            {
                "run": number,
                "scenario": group.facts.scenario,
                "rubric": group.facts.rubric,
                "policy": group.facts.policy,
                "tics": group.facts.tics,
                **run.metric(group.facts.scenario),
            }
            for number, run in enumerate(runs)
            for group in run.groups
        ],
        "credits": [run.credit_id for run in runs],
        "summarizers": [run.judgements.summarizer_id for run in runs],
        "episodes": [_entry(candidate) for candidate in listed],
    }


def _entry(candidate: Candidate) -> dict[str, Any]:
    row = candidate.numbers.row
    entry = {
        "id": row.episode_id,
        "group": candidate.group,
        "seed": str(row.seed),
        "index": row.index,
        "status": row.status,
        "stage": row.stage,
        "cause": row.cause,
        "metric": row.metric,
        "steps": row.steps,
        "end": row.end_reason,
        "outOfSchema": row.n_out_of_schema,
        "asked": candidate.numbers.agreement.n,
        "disagreements": candidate.numbers.disagreements,
        "ungraded": candidate.ungraded,
        "verdicts": [dataclasses.asdict(verdict) for verdict in candidate.verdicts],
    }
    return {key: _plain(value) for key, value in entry.items()}


def _texts(runs: Sequence[ReportedRun], listed: Sequence[Candidate], room: int) -> dict[int, str]:
    """By place in `listed`, group by group in turns, until the first that no longer fits."""
    summaries = [
        run.judgements.summaries({one.episode_id for one in listed if one.run == number})
        for number, run in enumerate(runs)
    ]
    texts: dict[int, str] = {}
    places = {id(one): place for place, one in enumerate(listed)}
    for one in in_turns(listed):
        if one.numbers.row.steps:
            text = _text(runs[one.run].rows, one.episode_id, summaries[one.run].get(one.episode_id, ()))
            room -= len(text)
            if room < 0:
                break
            texts[places[id(one)]] = text
    return texts


def _text(rows: EpisodeRows, episode_id: str, summaries: Iterable[Summary]) -> str:
    columns, disagrees = rows.shown(episode_id)
    told = {
        "columns": {name: [_cut(value) for value in values] for name, values in columns.items()},
        "disagrees": [int(flag) for flag in disagrees],
        "summaries": [dataclasses.asdict(summary) for summary in summaries],
    }
    return _base64(zlib.compress(_json(told).encode(), _LEVEL))


def _pictures(
    runs: Sequence[ReportedRun], listed: Sequence[Candidate], texts: Collection[int], room: int
) -> dict[int, str]:
    """The same of pictures, for the episodes whose `texts` are there, in their order."""
    pictures: dict[int, str] = {}
    for place in texts:
        small = small_pictures(runs[listed[place].run].rows.frames(listed[place].episode_id))
        if any(small):
            blob = _base64(_blob(small))
            room -= len(blob)
            if room < 0:
                break
            pictures[place] = blob
    return pictures


def _blob(pictures: Sequence[bytes]) -> bytes:
    """How many, how long each is (uint32, little-endian), and then they themselves."""
    return b"".join((struct.pack(f"<{1 + len(pictures)}I", len(pictures), *map(len, pictures)), *pictures))


def _named(kind: str, parts: Mapping[int, str]) -> list[Part]:
    return [Part(f"{kind}-{place}", text) for place, text in parts.items()]


def _left_out(
    ordered: Sequence[Candidate], listed: Sequence[Candidate], texts: Mapping[int, str], pictures: Mapping[int, str]
) -> Iterable[str]:
    """What a person would look for in vain here; the shards have all of it."""
    played = sum(one.numbers.row.steps > 0 for one in ordered)
    if len(listed) < len(ordered):
        yield f"the {len(ordered) - len(listed):,} least urgent of {len(ordered):,} episodes are not listed"
    if len(texts) < played:
        yield f"{played - len(texts):,} of {played:,} episodes are here without their decisions"
    if len(pictures) < played:
        yield f"{played - len(pictures):,} of {played:,} episodes are here without pictures"
    if pictures:
        yield "pictures are lossy WebP: the exact pixels are in the shards"
    if texts:
        yield f"texts are cut after {LONGEST_TEXT:,} characters; messages and token log-probabilities are in the shards"


def _json(value: Any) -> str:
    """JSON has no word for a number that is none: it becomes its name, which is rare."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_plain(value), separators=(",", ":"))


def _plain(value: Any) -> Any:
    """What JSON has, long texts cut with a mark."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _cut(value)


def _cut(value: Any) -> Any:
    """A text at most so long, with a mark; anything else as it is."""
    if not isinstance(value, str) or len(value) <= LONGEST_TEXT:
        return value
    return f"{value[:LONGEST_TEXT]} … ({len(value) - LONGEST_TEXT:,} characters more)"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
