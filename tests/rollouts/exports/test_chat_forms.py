"""Conversations: which rows, in whose words, and that transformers, `datasets` and TRL take them as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.exported_runs import pixels, provenance
from tests.rollouts.exports.conftest import Exported


def read(out: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(out.glob("data/*.parquet")) for row in pq.read_table(path).to_pylist()]


def keys(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(seed, tick) of each row, in order."""
    return [(int(row["episode_id"].split(".")[3]), row["tick"]) for row in rows]


def test_sft_answers_with_the_teachers_action(exported: Exported) -> None:
    out, told = exported("sft")
    rows = read(out)
    assert keys(rows) == [(1, 0), (1, 1), (1, 2), (3, 0), (2, 0), (2, 1)]
    assert (told["written"], told["left_out"]) == (6, {"superseded": 1})
    for row in rows:
        system, user, assistant = row["messages"]
        assert (system["role"], user["role"], assistant) == ("system", "user", {"role": "assistant", "content": "B"})
        assert "Go down." in system["content"]
        assert f"state {row['tick']}\n\nOptions:\nA: stay\nB: down\n\nYour letter:" == user["content"]


@pytest.mark.parametrize(("answer", "said"), [("plain", "down"), ("json", '{"action": "down"}')])
def test_the_form_of_an_answer_is_the_policys(exported: Exported, answer: str, said: str) -> None:
    rows = read(exported("sft", "--answer", answer)[0])
    assert {row["messages"][-1]["content"] for row in rows} == {said}


def test_preference_is_where_an_answer_in_schema_differs(exported: Exported) -> None:
    out, told = exported("preference")
    rows = read(out)
    assert keys(rows) == [(1, 1), (2, 0)]
    assert told["left_out"] == {"superseded": 1, "not_asked": 1, "out_of_schema": 1, "agrees": 2}
    for row in rows:
        assert [message["role"] for message in row["prompt"]] == ["system", "user"]
        assert row["chosen"] == [{"role": "assistant", "content": "B"}]
        assert row["rejected"] == [{"role": "assistant", "content": "A"}]


def test_a_weight_is_the_credit_and_rows_without_are_left_out(exported: Exported) -> None:
    out, told = exported("sft", "--credit")
    assert [(row["tick"], row["weight"]) for row in read(out)] == [(0, -0.5), (1, 0.25), (2, 1.0)]
    assert told["left_out"] == {"superseded": 1, "no_credit": 3}


@pytest.mark.parametrize(
    ("words", "ticks", "left_out"),
    [
        (("--graded",), [0, 1, 2], {"superseded": 1, "ungraded": 3}),
        (("--min-credit", "0.25"), [1, 2], {"superseded": 1, "min_credit": 4}),
        (("--graded", "--min-credit", "0.5"), [2], {"superseded": 1, "ungraded": 3, "min_credit": 2}),
        (("--policy", "half", "--limit", "2"), [0, 1], {"superseded": 1}),
    ],
)
def test_what_filters_leave_out_is_counted(
    exported: Exported, words: tuple[str, ...], ticks: list[int], left_out: dict[str, int]
) -> None:
    out, told = exported("sft", *words)
    assert [row["tick"] for row in read(out)] == ticks
    assert (told["written"], told["left_out"]) == (len(ticks), left_out)
    assert provenance(out)["left_out"] == left_out


def test_json_lines_hold_the_same_samples(exported: Exported) -> None:
    out, _ = exported("sft", "--files", "jsonl")
    lines = [json.loads(line) for line in (out / "data" / "train-00000.jsonl").read_text().splitlines()]
    assert lines == read(exported("sft")[0])


def test_files_are_of_bounded_size_and_in_order(exported: Exported) -> None:
    """Another file is begun where one has reached the limit, so none would reach it without its last line."""
    out, _ = exported("sft", "--files", "jsonl", "--shard-mb", "0.0015")
    files = sorted(out.glob("data/*.jsonl"))
    assert [path.name for path in files] == [f"train-{n:05d}.jsonl" for n in range(len(files))]
    assert len(files) > 1
    assert all(path.stat().st_size >= 1_500 for path in files[:-1])
    lines = [path.read_bytes().splitlines(keepends=True) for path in files]
    assert all(sum(map(len, some[:-1])) < 1_500 for some in lines)
    assert keys([json.loads(line) for some in lines for line in some]) == [
        (1, 0),
        (1, 1),
        (1, 2),
        (3, 0),
        (2, 0),
        (2, 1),
    ]


def test_datasets_reads_messages_and_pictures(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    out, _ = exported("sft", "--observe", "both", "--answer", "plain")
    rows = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert rows.features["images"] == datasets.List(datasets.Image(mode="RGB"))
    (picture,) = rows[4]["images"]
    assert np.array_equal(np.asarray(picture), pixels(2, 0))
    system, user, assistant = rows[4]["messages"]
    assert [part["type"] for part in user["content"]] == ["text", "image"]
    assert user["content"][0]["text"] == "state 0\n\nOptions:\n- stay\n- down\n\nYour choice:"
    assert "one picture" in system["content"][0]["text"]
    assert assistant["content"] == [{"type": "text", "text": "down"}]


def test_a_picture_alone_comes_with_the_status(exported: Exported) -> None:
    rows = read(exported("sft", "--observe", "frame")[0])
    assert rows[0]["messages"][1]["content"][0]["text"].startswith("Health is 5.\n\nOptions:")
