"""The console command as a user meets it: in this process, on the real engine, with the local pool."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rollouts.cli import main
from rollouts.scenarios.registry import SCENARIOS

SMALL = ("--scenario", "defend_the_center", "--seeds", "0:2", "--step-cap", "3", "--pool", "local")


@dataclass(frozen=True)
class Said:
    """What one command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def rollouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """`rollouts(*words)` in an empty folder, which is its current one."""
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> Said:
        capfd.readouterr()
        code = main(list(words))
        return Said(code, *capfd.readouterr())

    return command


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def refused(said: Said, named: Sequence[str]) -> None:
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("rollouts: ")
    assert said.err.count("\n") == 1
    assert [word for word in named if word not in said.err] == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("nope",), ["nope", "run", "verify", "bench", "doctor"]),
        (("run", "--tix", "4"), ["--tix", "--tics", "rollouts run --help"]),
        (("run", "--tics"), ["--tics"]),
        (("run", "--tics", "4", "--tics", "5"), ["--tics"]),
        (("run", "a.toml", "b.toml"), ["b.toml"]),
        (("run", "absent.toml"), ["absent.toml", "No such file"]),
        (("run", "/"), ['config file "/"', "is a folder, not a file"]),
        (("run", "--scenario", "defend_the_centre"), ["defend_the_centre", "defend_the_center", "health_gathering"]),
        (("run", "--policy", "orakle"), ["orakle", "oracle", "random"]),
        (("run", "--policy", "no_such_module:P"), ["no_such_module:P"]),
        (("run", "--rubric", "loose"), ["loose", "rule", "bare", "both"]),
        (("run", "--frames", "gif"), ["--frames", "gif", "png", "jpeg", "none"]),
        (("run", "--pool", "slurm"), ["--pool", "slurm", "ray", "local"]),
        (("run", "--seeds", "x"), ["--seeds", "x", "published"]),
        (("run", "--seeds", "-1"), ["--seeds", "-1"]),
        (("run", "--seeds", "4294967296"), ["4294967296", "4294967295"]),
        (("run", "--seeds", "1,1"), ["seed 1", "twice"]),
        (("run", "--tics", "0"), ["--tics", "0"]),
        (("run", "--step-cap", "-5"), ["--step-cap", "-5"]),
        (("run", "--actors", "0"), ["--actors", "0"]),
        (("run", "--episodes-per-seed", "0"), ["--episodes-per-seed", "0"]),
        (("run", "--cpus-per-actor", "-1"), ["--cpus-per-actor", "-1"]),
        (("run", "--run-id", ""), ["--run-id", '""']),
        (("run", "--run-id", "../up"), ["--run-id", "../up"]),
        (("run", "--variable", "HEALTHY"), ["--variable", "HEALTHY"]),
        (("run", "--out", "s3://key:secret@bucket/runs"), ["credentials", "s3://bucket/runs"]),
        (("run", "--out", "gopher://hole"), ["gopher"]),
        (("verify", "runs/absent"), ["runs/absent", "no run"]),
        (("verify", ""), ['run ""']),
        (("verify", "absent", "--replay", "-1"), ["--replay", "-1"]),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    rollouts: Any, tmp_path: Path, words: Sequence[str], named: Sequence[str]
) -> None:
    refused(rollouts(*words), named)
    assert files(tmp_path) == []


def test_an_unknown_key_of_the_file_is_named(rollouts: Any, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("ticks = 4\n")
    refused(rollouts("run", "run.toml"), ["run.toml", '"ticks"', 'did you mean "tics"'])
    assert files(tmp_path) == ["run.toml"]


def test_an_output_that_is_a_file_is_refused(rollouts: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    refused(rollouts("run", *SMALL, "--out", "taken/runs"), ["taken", "file"])
    assert files(tmp_path) == ["taken"]


def test_a_secret_in_a_uri_is_never_printed(rollouts: Any) -> None:
    said = rollouts("run", "--out", "s3://key:hush@bucket/runs")
    assert "hush" not in said.err


def test_help_and_version_succeed(rollouts: Any) -> None:
    assert rollouts("--version").code == 0
    said = rollouts("run", "--help")
    assert said.code == 0
    assert "--episodes-per-seed" in said.out


def test_a_dry_run_tells_the_plan_and_writes_nothing(rollouts: Any, tmp_path: Path) -> None:
    said = rollouts("run", "--scenario", "published", "--policy", "oracle", "--policy", "random", "--dry-run", "--json")
    (plan,) = said.events
    assert said.code == 0
    assert (plan["episodes"], plan["episodes_owed"], plan["decisions_at_most"]) == (32, 32, 32 * 300)
    assert plan["units"] == 32
    assert (plan["calls_at_most"], plan["exists"]) == (0, False)
    assert [group["episodes_owed"] for group in plan["groups"]] == [8, 8, 8, 8]
    assert files(tmp_path) == []
    table = rollouts("run", "--dry-run")
    assert "health_gathering" in table.out
    assert files(tmp_path) == []


@pytest.mark.slow
def test_a_run_from_start_to_table(rollouts: Any, tmp_path: Path) -> None:
    said = rollouts("run", *SMALL, "--run-id", "r")
    assert said.code == 0
    assert "defend_the_center: kills" in said.out
    assert "2/2 episodes" in said.err
    assert "starting r: 2 of 2 episodes owed, 1 actor (local)" in said.err
    shards = [name for name in files(tmp_path) if name.startswith("runs/r/steps")]
    assert shards == ["runs/r/steps/part-0000000.parquet", "runs/r/steps/part-0000001.parquet"]
    assert {name for name in files(tmp_path) if "/" not in name.removeprefix("runs/r/")} >= {
        "runs/r/README.md",
        "runs/r/manifest.json",
        "runs/r/run.json",
    }


@pytest.mark.slow
def test_json_lines_begin_with_launch_and_end_with_done(rollouts: Any, tmp_path: Path) -> None:
    said = rollouts("run", *SMALL, "--run-id", "r", "--json")
    first, *_, last = said.events
    assert (first["event"], first["run_id"], first["episodes_owed"]) == ("launch", "r", 2)
    assert (last["event"], last["state"], last["owed"], last["exit_code"]) == ("done", "complete", 0, 0)
    (block,) = last["results"]
    manifest = json.loads((tmp_path / "runs/r/manifest.json").read_text())
    assert last["manifest"] == str(tmp_path / "runs/r/manifest.json")
    assert manifest["results"] == [block]
    assert block["n_decisions"] == 6
    assert block["rubric_agreement"]["agreement"] == 1.0


@pytest.mark.slow
def test_the_same_command_again_has_nothing_to_do(rollouts: Any, tmp_path: Path) -> None:
    first = rollouts("run", *SMALL, "--json").events[-1]
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in files(tmp_path)}
    again = rollouts("run", *SMALL, "--json")
    assert again.code == 0
    assert (again.events[0]["actors"], again.events[0]["episodes_owed"]) == (0, 0)
    assert "nothing is owed" in rollouts("run", *SMALL).err
    assert again.events[-1] == first
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in files(tmp_path)} == before


@pytest.mark.slow
def test_evidence_that_was_never_written_is_written_by_the_next_command(rollouts: Any, tmp_path: Path) -> None:
    rollouts("run", *SMALL, "--run-id", "r")
    (tmp_path / "runs/r/manifest.json").unlink()
    assert rollouts("run", *SMALL, "--run-id", "r").code == 0
    assert (tmp_path / "runs/r/manifest.json").exists()


@pytest.mark.slow
def test_another_identity_is_refused_by_the_fields_that_differ(rollouts: Any, tmp_path: Path) -> None:
    rollouts("run", *SMALL, "--run-id", "r")
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    said = rollouts("run", *SMALL, "--run-id", "r", "--tics", "5", "--frames", "none")
    refused(said, ["frames", "scenarios.defend_the_center.tics is 4 there, 5 here", '"r"'])
    assert "seeds" not in said.err
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


@pytest.mark.slow
def test_more_seeds_extend_a_named_run(rollouts: Any, tmp_path: Path) -> None:
    rollouts("run", *SMALL, "--run-id", "r")
    shard = tmp_path / "runs/r/steps/part-0000000.parquet"
    before = shard.read_bytes()
    said = rollouts("run", *SMALL[:2], "--seeds", "0:3", *SMALL[4:], "--run-id", "r", "--json")
    assert said.code == 0
    assert (said.events[0]["episodes_owed"], said.events[0]["resumed"]) == (1, True)
    assert said.events[-1]["results"][0]["seeds"] == [0, 1, 2]
    assert said.events[-1]["results"][0]["n_decisions"] == 9
    assert shard.read_bytes() == before
    assert rollouts("verify", "runs/r").code == 0


@pytest.mark.slow
def test_new_plays_a_repeat_beside_the_first(rollouts: Any) -> None:
    first = rollouts("run", *SMALL, "--json").events[-1]
    second = rollouts("run", *SMALL, "--new", "--json").events[-1]
    assert second["run_id"] == f"{first['run_id']}-2"
    assert second["results"] == first["results"]


@pytest.mark.slow
def test_settings_come_from_a_file_too(rollouts: Any, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        'scenario = "defend_the_center"\nseeds = "0:2"\nstep_cap = 9\npool = "local"\nrun_id = "r"\n'
    )
    done = rollouts("run", "run.toml", "--step-cap", "3", "--json").events[-1]
    assert done["run_id"] == "r"
    assert done["results"][0]["step_cap"] == 3


@pytest.mark.slow
def test_a_policy_that_cannot_be_made_is_refused_in_its_own_words(rollouts: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        'class Broken:\n    def __init__(self):\n        raise ValueError("bad weights path X")\n'
    )
    said = rollouts("run", *SMALL, "--policy", "broken:Broken", "--run-id", "r")
    assert said.code == 2
    assert said.err == "rollouts: policy 'broken:Broken' cannot be made: ValueError: bad weights path X\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_verify_finds_nothing_in_a_sound_run_and_plays_it_again(rollouts: Any) -> None:
    rollouts("run", *SMALL, "--run-id", "r")
    said = rollouts("verify", "runs/r", "--replay", "2", "--json")
    assert said.code == 0
    assert json.loads(said.out)["differences"] == []
    assert rollouts("verify", "r").code == 0


@pytest.mark.slow
def test_verify_names_what_differs(rollouts: Any, tmp_path: Path) -> None:
    rollouts("run", *SMALL, "--run-id", "r")
    manifest = tmp_path / "runs/r/manifest.json"
    manifest.write_text(manifest.read_text().replace('"n_decisions": 6', '"n_decisions": 7'))
    said = rollouts("verify", "runs/r")
    assert said.code == 1
    assert "n_decisions" in said.out


def test_scenarios_lists_what_can_be_played(rollouts: Any) -> None:
    told = rollouts("scenarios", "--json").events
    by_name = {scenario["scenario"]: scenario for scenario in told}
    assert list(by_name) == list(SCENARIOS)
    assert by_name["defend_the_center"]["actions"] == ["attack", "turn left", "turn right"]
    assert by_name["defend_the_center"]["baselines"] == {"random": 1.39, "oracle": 11.125}
    assert (by_name["predict_position"]["has_teacher"], by_name["predict_position"]["rubrics"]) == (False, ["bare"])
    assert by_name["predict_position"]["baselines"]["oracle"] is None
    table = rollouts("scenarios").out
    assert [name for name in SCENARIOS if name not in table] == []
    assert "11.125" in table


@pytest.mark.parametrize(
    "trouble", ["1 / 0", "import sys; sys.exit(3)", "import absent_module", "raise SystemExit", "x ="]
)
@pytest.mark.parametrize("what", ["scenario", "policy"])
def test_a_users_module_that_cannot_be_imported_is_one_line(
    rollouts: Any, tmp_path: Path, trouble: str, what: str
) -> None:
    (tmp_path / f"mine_{what}.py").write_text(trouble + "\n")
    refused(rollouts("run", f"--{what}", f"mine_{what}:X"), [f"mine_{what}", "cannot import", "choose from"])
    assert files(tmp_path) == [f"mine_{what}.py"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ("engine=None", ["either an engine set-up or an environment"]),
        ("step_cap=0", ["step cap (0)"]),
        ('engine=EngineSetup("absent.cfg")', ["absent.cfg"]),
        ('engine=EngineSetup("basic.cfg", wad=__file__)', ["wrong_", "is no wad"]),
        ('actions=(Action("fly", ("FLY_UP",)),)', ["FLY_UP"]),
        ('engine=EngineSetup("basic.cfg", variables=("MANA",))', ["MANA"]),
    ],
)
def test_a_users_scenario_that_is_wrong_is_one_line(
    rollouts: Any, tmp_path: Path, changes: str, named: list[str]
) -> None:
    module = f"wrong_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(
        "from dataclasses import replace\nfrom rollouts.scenarios.scenario import *\n"
        "from rollouts.scenarios.registry import SCENARIOS\n"
        f'MINE = replace(SCENARIOS["defend_the_center"], name="mine", {changes})\n'
    )
    refused(rollouts("run", "--scenario", f"{module}:MINE", "--pool", "local"), named)
    assert files(tmp_path) == [f"{module}.py"]


@pytest.mark.slow
def test_growth_keeps_when_and_by_what_the_run_was_started(rollouts: Any, tmp_path: Path) -> None:
    rollouts("run", *SMALL, "--run-id", "r")
    path = tmp_path / "runs/r/run.json"
    first = json.loads(path.read_text())
    first["versions"]["vizdoom"], first["source"] = "an older one", {"revision": "abc", "dirty": False}
    path.write_text(json.dumps(first))
    rollouts("run", *SMALL[:2], "--seeds", "0:3", *SMALL[4:], "--run-id", "r")
    grown = json.loads(path.read_text())
    assert [grown[key] == first[key] for key in ("started_at", "source", "versions", "identity")] == [True] * 3 + [
        False
    ]
    assert grown["identity"]["seeds"]["defend_the_center"] == [0, 1, 2]


FLAKY = """
from dataclasses import replace
from pathlib import Path
from rollouts.scenarios.registry import SCENARIOS
from rollouts.policies.oracle import OraclePolicy

class Flaky:
    def act(self, snapshot, text, options, instructions):
        if Path("broken").exists() and options and snapshot.tic > 4:
            raise OSError("no weights")
        from rollouts.records import Answer
        return Answer(options[0])

    def describe(self):
        from rollouts.records import PolicyDescription
        return PolicyDescription("flaky", "rule")
"""


@pytest.mark.slow
def test_failed_episodes_are_played_again_only_when_asked_for(rollouts: Any, tmp_path: Path) -> None:
    """Ten errors in a row fail an episode; the retry is a new unit, the first one's shard stays as it was."""
    (tmp_path / "flaky.py").write_text(FLAKY)
    (tmp_path / "broken").touch()
    words = ("run", "--scenario", "defend_the_center", "--seeds", "0:2", "--step-cap", "15", "--pool", "local")
    words += ("--policy", "flaky:Flaky", "--run-id", "r", "--json")
    first = rollouts(*words)
    assert (first.code, first.events[-1]["coverage"]["failed"], first.events[-1]["owed"]) == (1, 2, 0)
    shards = {name: (tmp_path / name).read_bytes() for name in files(tmp_path) if "part-" in name}
    (tmp_path / "broken").unlink()
    again = rollouts(*words)
    assert (again.code, again.events[0]["episodes_owed"]) == (1, 0)
    retried = rollouts(*words, "--retry-failed")
    coverage = retried.events[-1]["coverage"]
    assert retried.code == 0
    assert (coverage["planned"], coverage["completed"], coverage["failed"], coverage["owed"]) == (2, 2, 0, 0)
    assert retried.events[-1]["owed"] == 0
    assert [retried.events[0][key] for key in ("episodes", "episodes_owed")] == [2, 2]
    counts = [event for event in retried.events if event["event"] == "progress"][-1]
    assert [counts[key] for key in ("episodes", "failed", "of_episodes")] == [2, 0, 2]
    assert rollouts(*words).events[0]["episodes"] == 2
    assert {name: (tmp_path / name).read_bytes() for name in shards} == shards
    tries = pq.read_table(tmp_path / "runs/r/episodes", columns=["episode_id", "status", "tries"]).to_pylist()
    assert sorted((row["status"], row["tries"]) for row in tries) == [("completed", 1)] * 2 + [("failed", 0)] * 2
    assert rollouts(*words, "--retry-failed").code == 0
    assert rollouts("verify", "runs/r").code == 0
