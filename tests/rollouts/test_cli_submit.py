"""`rollouts submit` before it sends anything: bad input is one line, and what would be sent is known."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rollouts.cli import main
from tests.onnx_files import mean_colour
from tests.scenario_files import write_line

NOWHERE = "http://127.0.0.1:1"
KEY = "sk-marker-4f9ab2107c6e"


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """`submit(*words)` in an empty folder that is the current one: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def command(*words: str, address: str | None = NOWHERE) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["submit", *(("--address", address) if address else ()), *words])
        return (code, *capfd.readouterr())

    return command


def command_in(out: str) -> list[str]:
    """The words of the job's command, and before them Ray's."""
    (line,) = (line for line in out.splitlines() if line.startswith("by hand: "))
    return shlex.split(line.removeprefix("by hand: "))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--tics", "0"), ("--tics is 0",)),
        (("--policy", "orcale"), ("orcale", "oracle")),
        (("--scenario", "gone.toml"), ("gone.toml",)),
        (("--policy", "onnx:models/gone.onnx"), ("models/gone.onnx", "No such file")),
        (("--policy", "nobody:Knows"), ("nobody:Knows",)),
        (("--grade", "llm"), ("--grader-model",)),
        (("--weights", "1,2"), ("weights",)),
        (("--pool", "local"), ("--pool local", "cluster")),
        (("--metrics-port", "0"), ("--metrics-port",)),
        (("--out", "s3://AKIA:secret@bucket/runs"), ("credentials", "s3://bucket/runs")),
        (("--out", "s3://bucket/runs?secret_key=x"), ("credentials",)),
        (("--base-url", "https://me:pass@host/v1", "--grade", "llm", "--grader-model", "m"), ("credentials",)),
        (("--key-file", "keys.txt"), ("--key-file", "absolute")),
        (("--working-dir", "gone"), ("--working-dir", "no such folder")),
        (("--on-nodes", "models"), ("--on-nodes", "absolute")),
        (("--nonsense", "1"), ("--nonsense",)),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_sent(submit: Any, words: tuple[str, ...], named: tuple[str, ...]) -> None:
    code, out, err = submit(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert [word for word in named if word not in err] == []
    assert "secret" not in err.replace("secret_key", "")
    assert "dashboard" not in err, "nobody was asked at that address"


@pytest.mark.parametrize(
    ("address", "named"),
    [
        (None, "--address is missing"),
        ("127.0.0.1:8265", "must be the URL of the cluster's dashboard"),
        ("ray://127.0.0.1:10001", "must be the URL of the cluster's dashboard"),
        (f"http://user:{KEY}@127.0.0.1:8265", "--address carries credentials"),
    ],
)
def test_an_address_is_a_url_without_credentials(submit: Any, address: str | None, named: str) -> None:
    code, out, err = submit(address=address)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err
    assert KEY not in err


def test_the_address_may_be_where_rays_own_command_would_go(submit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", NOWHERE)
    code, out, _ = submit("--dry-run", address=None)
    assert (code, command_in(out)[4]) == (0, NOWHERE)


def test_a_folder_that_hides_ours_is_refused(submit: Any, tmp_path: Path) -> None:
    (tmp_path / "actors").mkdir()
    (tmp_path / "actors/__init__.py").touch()
    code, _, err = submit("--dry-run")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{tmp_path}/actors hides" in err


def test_settings_of_all_layers_become_flags_of_the_job(
    submit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOOM_ROLLOUTS_POLICY", "random,oracle")
    monkeypatch.setenv("DOOM_ROLLOUTS_RETRY_FAILED", "yes")
    (tmp_path / "run.toml").write_text("seeds = [3, 5]\ntics = 2\nweights = [1, 0, 0]\nshuffle-options = false\n")
    words = (
        "run.toml",
        "--tics",
        "8",
        "--scenario",
        "basic",
        "--new",
        "--json",
        "--actors",
        "2",
        "--out",
        "s3://b/runs",
    )
    code, out, err = submit(*words, "--dry-run")
    assert code == 0, err
    ray, job = out.splitlines()[-1].split(" -- ")
    assert job == (
        "python -m rollouts.cli run --policy random --policy oracle --retry-failed --seeds 3,5 --tics 8 "
        "--weights 1.0,0.0,0.0 --scenario basic --actors 2 --out s3://b/runs --new --json"
    )
    assert '"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "30"}' in ray


def test_where_to_play_goes_along(submit: Any) -> None:
    words = ("--node-label", "zone=a", "--node-label", "rollouts.node=cpu", "--placement-timeout", "30")
    code, out, err = submit(*words, "--out", "s3://b/runs", "--dry-run")
    assert code == 0, err
    assert out.splitlines()[-1].endswith(
        " run --node-label zone=a --node-label rollouts.node=cpu --placement-timeout 30.0 --out s3://b/runs"
    )


def ignored_by_git(folder: Path) -> None:
    (folder / ".gitignore").write_text("*\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)


def test_a_scenario_goes_along_with_all_that_its_file_names(submit: Any, tmp_path: Path) -> None:
    ignored_by_git(tmp_path)
    (tmp_path / "games").mkdir()
    write_line(tmp_path / "games")
    (tmp_path / "rule.txt").write_text("Shoot.")
    code, out, err = submit(
        *("--scenario", f"{tmp_path}/games/line.toml", "--rubric-file", f"rule={tmp_path}/rule.txt", "--dry-run")
    )
    assert code == 0, err
    words = command_in(out)
    assert words[words.index("--scenario") + 1] == "games/line.toml"
    assert words[words.index("--rubric-file") + 1] == "rule=rule.txt"
    names = ("games/line.toml", "games/mine.cfg", "games/mine.wad", "games/bare.txt", "rule.txt")
    assert {f"  {name}" for name in names} <= set(out.splitlines())


def test_a_model_that_git_ignores_goes_along_and_results_have_a_whole_path(submit: Any, tmp_path: Path) -> None:
    """R6."""
    ignored_by_git(tmp_path)
    (tmp_path / "models").mkdir()
    mean_colour(tmp_path / "models/p.onnx")
    code, out, err = submit("--policy", "mixture:0.5:onnx:./models/p.onnx", "--dry-run")
    assert code == 0, err
    words = command_in(out)
    assert words[words.index("--policy") + 1] == "mixture:0.5:onnx:models/p.onnx"
    assert words[words.index("--out") + 1] == f"{tmp_path}/runs"
    assert out.splitlines()[1] == "  models/p.onnx"


def test_a_model_that_is_not_in_the_working_dir_is_refused_or_lies_on_the_nodes(
    submit: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = mean_colour(tmp_path_factory.mktemp("models") / "p.onnx")
    code, out, err = submit("--policy", f"onnx:{elsewhere}", "--dry-run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f'"{elsewhere}" does not go along with the job, for it is not in {tmp_path}' in err
    words = (
        "--policy",
        "onnx:/nodes/models/p.onnx",
        "--on-nodes",
        "/nodes/models",
        "--policy-server",
        "1",
        "--dry-run",
    )
    code, out, err = submit(*words)
    assert code == 0, err
    assert "--policy onnx:/nodes/models/p.onnx --policy-server 1" in out


def test_a_working_dir_that_is_too_large_is_one_line(submit: Any, tmp_path: Path) -> None:
    (tmp_path / "film.mp4").touch()
    os.truncate(tmp_path / "film.mp4", 150_000_000)
    code, out, err = submit()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "150.0 MB" in err
    assert "film.mp4" in err
    assert "--exclude" in err


def test_a_key_in_the_command_is_refused_for_ray_shows_commands(submit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, out, err = submit("--policy", f"chat:{KEY}", "--dry-run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "OPENAI_API_KEY" in err
    assert KEY not in err
    code, out, err = submit("--policy", "chat:m", "--grade", "llm", "--grader-model", "m", "--dry-run")
    assert code == 0, err
    assert KEY not in out + err
