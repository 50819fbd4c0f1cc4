"""What a worker writes down."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rollouts.pools.pool import Task
from rollouts.records import EpisodeFailure, EpisodeKey, SideReport
from rollouts.store.storage import LocalStorage, Storage, open_storage
from rollouts.worker_log import WorkerLog
from tests.pool_doubles import make_units, report_of

NOW = datetime.now(UTC)
UNIT = make_units(1, episodes=2)[0]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def failed(seed: int) -> EpisodeFailure:
    return EpisodeFailure(EpisodeKey("s", "rule", "oracle", seed, 0), "policy", "no answer", NOW, NOW)


def test_lines_that_differ_only_in_numbers_are_all_there_with_worker_episode_and_seed(tmp_path: Path) -> None:
    logs = [WorkerLog(open_storage(tmp_path), "run", f"actor-{n}", "node") for n in range(4)]
    for number, log in enumerate(logs):
        for seed in range(10):
            log.episode(failed(seed))
        log.unit(report_of(Task(UNIT, f"e1-{number}")))
    assert len(list((tmp_path / "run/logs").iterdir())) == 4
    for number in range(4):
        found = lines(tmp_path / f"run/logs/actor-{number}.jsonl")
        episodes = [line for line in found if line["event"] == "episode"]
        assert [line["seed"] for line in episodes] == list(range(10))
        assert {line["actor"] for line in found} == {f"actor-{number}"}
        assert episodes[3]["episode"] == "s.rule.oracle.3.0"
        assert found[-1] | {"at": 0} == {
            "at": 0,
            "run": "run",
            "actor": f"actor-{number}",
            "node": "node",
            "event": "unit",
            "unit": 0,
            "attempt": f"e1-{number}",
            "decisions": 10,
            "engine_restarts": 0,
        }


def test_an_error_names_the_episodes_and_seeds_it_may_be_about(tmp_path: Path) -> None:
    WorkerLog(open_storage(tmp_path), "run", "a", "node").error(UNIT, "e1-0", "EngineLost: gone")
    (line,) = lines(tmp_path / "run/logs/a.jsonl")
    assert (line["cause"], line["seeds"]) == ("EngineLost: gone", [0])
    assert line["episodes"] == ["scenario0.rule.oracle.0.0", "scenario0.rule.oracle.0.1"]


def test_where_nothing_can_be_appended_the_file_is_written_again_whole(tmp_path: Path) -> None:
    local = LocalStorage(tmp_path)
    store = Storage("s3://bucket", local.filesystem, str(tmp_path))
    (tmp_path / "run/logs").mkdir(parents=True)
    log = WorkerLog(store, "run", "a", "node")
    log.error(UNIT, "e1-0", "first")
    log.error(UNIT, "e1-1", "second")
    (file,) = (tmp_path / "run/logs").iterdir()
    assert [line["cause"] for line in lines(file)] == ["first", "second"]
    WorkerLog(store, "run", "a", "node").error(UNIT, "e2-0", "of another start")
    assert len(list((tmp_path / "run/logs").iterdir())) == 2


def test_threads_may_share_one(tmp_path: Path) -> None:
    """As the lanes of a grader do: no line is lost or written twice, none is torn."""
    log = WorkerLog(open_storage(tmp_path), "run", "grader", "node")
    reports = [SideReport(0, f"e1-{n}", (), (None, ("grading", "refused"))) for n in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda report: log.judged("grades", UNIT, report), reports))
    found = lines(tmp_path / "run/logs/grader.jsonl")
    assert Counter((line["attempt"], line["episode"], line["cause"]) for line in found) == Counter(
        (report.attempt, f"scenario0.rule.oracle.0.{index}", cause)
        for report in reports
        for index, cause in enumerate((None, "grading: refused"))
    )
    assert {(line["run"], line["actor"], line["stage"], line["seed"]) for line in found} == {
        ("run", "grader", "grades", 0)
    }


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    WorkerLog(open_storage(tmp_path), "run", "a", "node").error(UNIT, "e1-0", "x")


@pytest.mark.parametrize("name", ["../up", "a/b"])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    WorkerLog(open_storage(tmp_path), "run", name, "node").error(UNIT, "e1-0", "x")
    assert len(list((tmp_path / "run/logs").iterdir())) == 1
