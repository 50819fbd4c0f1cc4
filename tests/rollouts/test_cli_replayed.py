"""A run whose shards are damaged, and the same command again: real episodes, a real endpoint on loopback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.cli import main
from rollouts.records import Answer, PolicyDescription, Snapshot

RUN = (
    *("run", "--policy", "tests.rollouts.test_cli_replayed:Free", "--scenario", "defend_the_center", "--seeds", "0:3"),
    *("--pool", "local", "--frames", "none", "--run-id", "r", "--json"),
)
LLM = ("--grade", "llm", "--grader-model", "judge", "--summarize", "llm", "--summarizer-model", "scribe")


class Free:
    """Plays no episode twice alike."""

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        return Answer(options[os.urandom(1)[0] % len(options)])

    def describe(self) -> PolicyDescription:
        return PolicyDescription("free", "rule")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def rows(table: str) -> list[dict[str, Any]]:
    files = sorted(str(path) for path in Path("runs/r", table).rglob("part-*.parquet"))
    found: list[dict[str, Any]] = ds.dataset(files, partitioning=None).to_table().to_pylist()
    return found


def part(table: str, whose: str = "") -> Path:
    """The shard of the second unit."""
    (found,) = Path("runs/r", table).glob(f"{whose}*/part-0000001-0.parquet")
    return found


def tear(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 8)


def notes(told: str) -> list[str]:
    lines = [json.loads(line) for line in told.splitlines()]
    return [line["text"] for line in lines if line["event"] == "note" and "set aside" in line["text"]]


def check_that_rows_judge_what_was_played(source: str) -> None:
    decisions = {row["episode_id"]: row["steps"] for row in rows("episodes")}
    for table in ("grades", "credit"):
        assert {row["episode_id"] for row in rows(table)} == set(decisions)
    credited: dict[str, int] = dict.fromkeys(decisions, 0)
    for row in rows("credit"):
        credited[row["episode_id"]] += 1
    assert credited == decisions
    if source == "heuristic":
        (scenario,) = json.loads(Path("runs/r/run.json").read_text())["scenarios"].values()
        low, high = scenario["baselines"]["random"], scenario["baselines"]["oracle"]
        goal = {r["episode_id"]: 2 * (r["metric"] - low) / (high - low) - 1 for r in rows("episodes")}
        there = {row["episode_id"]: row["goal_achievement"] for row in rows("grades")}
        assert there == pytest.approx({key: min(1.0, max(-1.0, value)) for key, value in goal.items()})
    else:
        spans: dict[str, int] = dict.fromkeys(decisions, 0)
        for row in rows("summaries"):
            spans[row["episode_id"]] += row["decisions"]
        assert spans == decisions


@pytest.mark.slow
@pytest.mark.parametrize("source", ["heuristic", "llm"])
def test_an_episode_that_is_played_again_is_judged_again(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    with FakeEndpoint() as fake:
        words = (*RUN, *((*LLM, "--base-url", fake.base_url) if source == "llm" else ()))
        assert main(list(words)) == 0
        before = {row["episode_id"]: row["graded_at"] for row in rows("grades")}
        tear(Path("runs/r/steps/part-0000001.parquet"))
        capfd.readouterr()
        assert main(list(words)) == 0
    told = capfd.readouterr()
    (note,) = notes(told.out)
    assert "episodes/part-0000001.parquet (its steps shard part-0000001.parquet has " in note
    after = {row["episode_id"]: row["graded_at"] for row in rows("grades")}
    assert [key for key in before if before[key] != after[key]] == ["defend_the_center.rule.free.1.0"]
    check_that_rows_judge_what_was_played(source)
    assert main(["verify", "r"]) == 0


@pytest.mark.slow
def test_a_torn_side_shard_blocks_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Each of them once; only what a lost reply had to say costs a request again: one grade."""
    with FakeEndpoint() as fake:
        words = [*RUN, *LLM, "--base-url", fake.base_url]
        assert main(words) == 0
        asked = len(fake.requests)
        for table, whose, again in (
            *(("grades", "", 0), ("summaries", "", 0), ("credit", "", 0)),
            *(("calls", "scribe", 0), ("calls", "judge", 1)),
        ):
            torn = part(table, whose)
            tear(torn)
            capfd.readouterr()
            assert main(["verify", "r"]) == 1, table
            assert f"{torn}: " in capfd.readouterr().out
            assert main([*words, "--dry-run"]) == 0, table
            capfd.readouterr()
            assert main(words) == 0, table
            (note,) = notes(capfd.readouterr().out)
            assert f": {torn.relative_to('runs/r')} (" in note
            assert "is not a whole Parquet file" in note
            assert len(fake.requests) - asked == again, (table, whose)
            check_that_rows_judge_what_was_played("llm")
            assert main(["verify", "r"]) == 0, table
            asked = len(fake.requests)
        tear(part("grades"))
        capfd.readouterr()
        assert main(["grade", "r", *LLM, "--base-url", fake.base_url, "--pool", "local", "--json"]) == 0
        assert len(notes(capfd.readouterr().out)) == 1
        assert len(fake.requests) == asked
        check_that_rows_judge_what_was_played("llm")
