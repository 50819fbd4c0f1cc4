from __future__ import annotations

import hashlib
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rollouts.config import RunConfig, load_config
from rollouts.errors import UsageError
from rollouts.identity import RunFacts, identity
from rollouts.policies.registry import make_policy
from rollouts.records import PlannedEpisode, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.scenarios.registry import SCENARIOS
from rollouts.store.storage import open_storage
from rollouts.worker import Worker, WorkOrder
from tests.scenario_files import write_line


def load(**flags: object) -> RunConfig:
    return load_config(flags, None, {})


def rubric(config: RunConfig, scenario: str, mode: str) -> str:
    return config.scenario(scenario).instructions[mode]


def test_a_scenario_file_is_played_by_a_worker_that_does_not_have_it(tmp_path: Path) -> None:
    """The order is pickled as it is sent to another node; there, the file and what it names are gone."""
    there = tmp_path / "there"
    there.mkdir()
    config = load(scenarios=[str(write_line(there))], frames="none", step_cap=3)
    sent = pickle.dumps(WorkOrder(config, "r", {"oracle": "oracle"}, {}))
    shutil.rmtree(there)
    folder = RunFolder(open_storage(tmp_path / "runs"), "r")
    worker = Worker(pickle.loads(sent), folder, "actor", "node")
    try:
        report = worker.play(Unit(0, "my_line", "bare", "oracle", (PlannedEpisode(1, 0),)), "try", {})
    finally:
        worker.close()
    assert (report.failures, report.n_decisions) == ((None,), 3)
    (steps,) = (tmp_path / "runs/r/.staging").rglob("steps*")
    assert set(pq.read_table(steps).column("teacher_action").to_pylist()) <= set(config.scenario("my_line").options)


def test_what_was_read_is_what_is_played_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    path = write_line(tmp_path)
    config = load(scenarios=[str(path)])
    path.write_text("no TOML at all")
    assert config.scenario("my_line").step_cap == 40


def test_the_record_has_paths_that_hold_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_line(tmp_path)
    monkeypatch.chdir(tmp_path)
    config = load(scenarios=["line.toml"], rubrics=["bare"], rubric_files=["bare=bare.txt"])
    assert config.as_dict()["scenarios"] == [str(tmp_path / "line.toml")]
    assert config.as_dict()["rubric_files"] == [f"bare={tmp_path / 'bare.txt'}"]
    monkeypatch.chdir("/")
    again = RunConfig.from_dict(config.as_dict())
    assert again == config
    assert again.scenario("my_line") == config.scenario("my_line")


def test_a_rubric_text_of_a_file_takes_the_place_of_a_scenarios_own(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.txt", tmp_path / "other.txt"
    mine.write_bytes("Räum auf.\r\n".encode())
    other.write_text("Survive.")
    both = ["defend_the_center", "health_gathering"]
    files = [f"rule={mine}", f"health_gathering:bare={other}"]
    config = load(scenarios=both, rubrics=["both"], rubric_files=files)
    assert rubric(config, "defend_the_center", "rule") == rubric(config, "health_gathering", "rule") == "Räum auf.\r\n"
    assert rubric(config, "health_gathering", "bare") == "Survive."
    assert rubric(config, "defend_the_center", "bare") == SCENARIOS["defend_the_center"].instructions["bare"]


def test_a_rubric_text_for_one_scenario_counts_before_one_for_all_and_each_is_given_once(tmp_path: Path) -> None:
    for name in ("mine", "all"):
        (tmp_path / name).write_text(name)
    files = [f"basic:rule={tmp_path / 'mine'}", f"rule={tmp_path / 'all'}"]
    for given in (files, files[::-1]):
        config = load(scenarios=["basic", "take_cover"], rubric_files=given)
        assert (rubric(config, "basic", "rule"), rubric(config, "take_cover", "rule")) == ("mine", "all")
    with pytest.raises(UsageError, match="--rubric-file: basic:rule is given 2 times: give it once"):
        load(scenarios=["basic"], rubric_files=[files[0], f"basic:rule={tmp_path / 'all'}"])


def test_a_scenario_without_a_rule_can_be_given_one(tmp_path: Path) -> None:
    (tmp_path / "rule.txt").write_text("Aim ahead of it.")
    files = [f"rule={tmp_path / 'rule.txt'}"]
    config = load(scenarios=["predict_position"], policies=["random"], rubric_files=files)
    assert rubric(config, "predict_position", "rule") == "Aim ahead of it."


def test_the_texts_hash_is_part_of_identity(tmp_path: Path) -> None:
    path = tmp_path / "rule.txt"
    path.write_text("Shoot.\n")
    facts = RunFacts("1.3.1", {}, {"oracle": make_policy("oracle", SCENARIOS["basic"]).describe()})

    def hashed(**flags: object) -> Any:
        return identity(load(scenarios=["basic"], **flags), facts)["scenarios"]["basic"]["rubrics_sha256"]["rule"]

    assert hashed(rubric_files=[f"rule={path}"]) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert hashed() != hashed(rubric_files=[f"rule={path}"])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("rule", ["--rubric-file", '"rule"', "MODE=PATH"]),
        ("rule=", ["--rubric-file", '"rule="', "MODE=PATH"]),
        ("loose={folder}/bare.txt", ["--rubric-file", '"loose"', "choose from rule, bare"]),
        ("doom:rule={folder}/bare.txt", ["--rubric-file", '"doom"', "choose from defend_the_center"]),
        ("rule={folder}/gone.txt", ["--rubric-file", "gone.txt", "No such file"]),
        ("rule={folder}", ["--rubric-file", "is a folder, not a file"]),
        ("rule={folder}/mine.wad", ["--rubric-file", "mine.wad", "UTF-8"]),
        ("rule={folder}/empty.txt", ["--rubric-file", "empty.txt", "is empty"]),
        ("bare={folder}/bare.txt", ["--rubric-file", "rubric bare is not played, only rule"]),
    ],
)
def test_a_rubric_file_that_is_wrong_is_one_line(tmp_path: Path, given: str, named: list[str]) -> None:
    write_line(tmp_path)
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(UsageError) as caught:
        load(scenarios=["defend_the_center"], rubric_files=[given.format(folder=tmp_path)])
    assert "\n" not in str(caught.value)
    assert [word for word in named if word not in str(caught.value)] == []
