"""`rollouts export` as a user of the console meets it: what it refuses, what it leaves, and where rows are from."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
import yaml  # type: ignore[import-untyped]

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.calls.fake_replies import lettered
from rollouts.cli import main
from tests.console import command, environment
from tests.exported_runs import judge, known_units, make, played, provenance
from tests.made_runs import Played

FORMS = ("sft", "preference", "webdataset", "lerobot")


@pytest.fixture
def known(tmp_path: Path) -> Path:
    judge(make(tmp_path / "runs"))
    return tmp_path / "runs" / "known"


def refusal(capsys: pytest.CaptureFixture[str], *words: object, code: int = 2) -> str:
    """The one line that a command ends with, without having written anything."""
    capsys.readouterr()
    assert main(["export", *map(str, words)]) == code
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--format", "stf"), 'did you mean "sft"'),
        (("--format", "sft", "--limit", "0"), "--limit is 0: must be 1 or above"),
        (("--format", "sft", "--shard-mb", "-1"), "--shard-mb is -1: must be above 0"),
        (("--format", "sft", "--observe", "pictures"), "choose from text, frame, both"),
        (("--format", "sft", "--observe", "both", "--files", "jsonl"), "use --files parquet"),
        (("--format", "sft", "--policy", "hlaf"), "policy 'hlaf' is not in these runs; there is 'half'"),
        (("--format", "sft", "--min-credit", "nan"), "min_credit nan: give a number"),
        (("--format", "sft", "--credit", "--credit-id", "other"), "there is formula-events-00000001"),
        (("--format", "sft", "--grader-id", "other"), "grader_id 'other': no grades are asked for"),
        (("--format", "sft", "--credit-id", "other"), "credit_id 'other': no credit is asked for"),
        (("--format", "lerobot", "--credit"), "--credit has no place in --format lerobot"),
        (("--format", "lerobot", "--min-credit", "0"), "--min-credit has no place in --format lerobot"),
        (("--format", "lerobot", "--limit", "3"), "--limit has no place in --format lerobot"),
        (("--format", "webdataset", "--observe", "both"), "--observe has no place in --format webdataset"),
    ],
)
def test_wrong_use_is_one_line_and_leaves_nothing(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert told in refusal(capsys, known, *words, "--out", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


def test_what_is_no_run_is_named(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    form = ("--format", "sft", "--out", tmp_path / "out")
    assert "no run is named" in refusal(capsys, *form)
    assert "there is no run in" in refusal(capsys, tmp_path / "nowhere", *form)
    shutil.copytree(known, tmp_path / "copies" / "known")
    assert "two of the runs have the id known" in refusal(capsys, known, tmp_path / "copies" / "known", *form)


def test_a_target_that_is_there_is_left_alone(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for dry in ((), ("--dry-run",)):
        assert "is there already" in refusal(capsys, known, "--format", "sft", "--out", out, *dry)
    assert list(out.iterdir()) == []
    assert "is a URI" in refusal(capsys, known, "--format", "sft", "--out", "s3://bucket/out")
    (tmp_path / "file").write_text("mine")
    assert "no folder can be made" in refusal(capsys, known, "--format", "sft", "--out", tmp_path / "file" / "out")


def test_nothing_left_to_export_says_why(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "runs", "calm", ({1: played(1, "ddt")},))
    told = refusal(capsys, tmp_path / "runs" / "calm", "--format", "preference", "--out", tmp_path / "out")
    assert "nothing is left to export as preference: rows left out: not_asked 1, agrees 2" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", FORMS)
def test_a_dry_run_says_the_same_and_writes_nothing(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    words = ("export", str(known), "--format", form, "--out", str(tmp_path / "out"), "--json")
    assert main([*words, "--dry-run"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
    assert main([*words]) == 0
    assert dry == {**json.loads(capsys.readouterr().out), "dry_run": True}


@pytest.mark.parametrize("form", FORMS)
def test_card_and_provenance_lie_beside(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    out = tmp_path / "out"
    assert main(["export", str(known), "--format", form, "--out", str(out)]) == 0
    told = provenance(out)
    (run,) = told["runs"]
    assert list(run["run_ids"]) == ["known"]
    shards = {path.name: len(pq.read_table(path)) for path in known.glob("steps/*.parquet")}
    assert {shard["name"]: shard["rows"] for shard in run["steps"]} == shards
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} - {"export.json"}
    assert {file["name"] for file in told["files"]} == files
    (config,) = yaml.safe_load((out / "README.md").read_text().split("---\n")[1])["configs"]
    assert any(out.glob(config["data_files"]))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{told['written']} samples ({form}) written to {out}"


def test_a_damaged_unit_is_named_and_left_out(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Foreign, empty and temporary files are nobody's, and not looked at."""
    shard = known / "steps" / "part-0000002.parquet"
    shard.write_bytes(shard.read_bytes()[:-8])
    (known / "steps" / "part-0000009.parquet").write_bytes(b"")
    (known / "steps" / "mine.parquet").write_bytes(b"no Parquet")
    line = refusal(capsys, known, "--format", "sft", "--out", tmp_path / "out", code=1)
    assert "part-0000002.parquet has" in line
    assert provenance(tmp_path / "out")["written"] == 5


@pytest.mark.slow
def test_the_words_are_those_that_a_chat_policy_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each prompt equals, message by message, what the run's own policy sent at that decision."""
    monkeypatch.chdir(tmp_path)
    game = ("--scenario", "defend_the_center", "--step-cap", "4", "--seeds", "0:1", "--pool", "local", "--run-id", "r")
    with FakeEndpoint(lambda _request: lettered("A", {"A": 0.9})) as fake:
        model = ("--policy", "chat:m", "--base-url", fake.base_url, "--shuffle-options", "--grade", "none")
        assert main(["run", *game, *model]) == 0
    assert main(["export", "r", "--format", "sft", "--out", "sft"]) == 0
    rows = pq.read_table(tmp_path / "runs" / "r" / "steps").to_pylist()
    samples = pq.read_table(tmp_path / "sft" / "data").to_pylist()
    assert len(rows) == len(samples) == 4
    assert len({tuple(row["options_shown"]) for row in rows}) > 1
    for row, sample in zip(rows, samples, strict=True):
        assert sample["messages"][:-1] == json.loads(row["messages"])
        letter = "ABC"[row["options_shown"].index(row["teacher_action"])]
        assert sample["messages"][-1] == {"role": "assistant", "content": letter}


def large(seeds: range) -> dict[int, Played]:
    """9 decisions an episode; one picture serves them all."""
    turns = played(0, "d", size=(240, 320)).turns * 9
    return {seed: Played(turns) for seed in seeds}


def started_export(known: Path, out: Path) -> subprocess.Popen[str]:
    words = ("export", str(known), "--format", "lerobot", "--out", str(out))
    return subprocess.Popen(
        command(*words), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    make(tmp_path / "runs", units=(large(range(500)),))
    process = started_export(tmp_path / "runs" / "known", tmp_path / "out")
    try:
        over = time.monotonic() + 60
        while not any(tmp_path.glob(".out.tmp-*/data/*/*.parquet")):
            assert process.poll() is None
            assert time.monotonic() < over
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    finally:
        process.kill()
        process.communicate()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


@pytest.mark.slow
def test_memory_is_flat(tmp_path: Path) -> None:
    """200 MB of pictures pass through; a row group is 4 MiB."""
    make(tmp_path / "runs", "small", (large(range(30)),))
    make(tmp_path / "runs", "big", tuple(large(range(unit * 30, unit * 30 + 30)) for unit in range(10)))
    peak_mib = {}
    for run in ("small", "big"):
        words = ("export", str(tmp_path / "runs" / run), "--format", "webdataset", "--out", str(tmp_path / run))
        process = psutil.Popen(command(*words), env=environment(), stdout=subprocess.DEVNULL)
        peak_mib[run] = 0.0
        while process.poll() is None:
            peak_mib[run] = max(peak_mib[run], process.memory_info().rss / 2**20)
            time.sleep(0.02)
        assert process.returncode == 0
    assert sum(path.stat().st_size for path in (tmp_path / "big").glob("*.tar")) > 200e6
    assert peak_mib["big"] - peak_mib["small"] < 60


def test_several_runs_are_one_export(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "runs", "second", known_units())
    runs = [str(known), str(tmp_path / "runs" / "second")]
    assert main(["export", *runs, "--format", "sft", "--out", str(tmp_path / "out")]) == 0
    rows: list[dict[str, Any]] = pq.read_table(tmp_path / "out" / "data").to_pylist()
    assert [row["run_id"] for row in rows] == ["known"] * 6 + ["second"] * 6
