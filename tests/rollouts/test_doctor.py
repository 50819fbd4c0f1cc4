from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollouts.cli import main
from rollouts.doctor import (
    Check,
    Finding,
    Worry,
    check_engine,
    check_output,
    check_shared_memory,
    check_versions,
    examine,
)
from rollouts.errors import EngineLost, UsageError
from rollouts.scenarios.registry import SCENARIOS


def raising(error: Exception) -> str:
    raise error


def test_every_check_is_made_whatever_the_earlier_ones_found() -> None:
    found = examine(
        [
            Check("good", lambda: "fine"),
            Check("ours", lambda: raising(EngineLost("it died"))),
            Check("worry", lambda: raising(Worry("tight"))),
            Check("any", lambda: raising(ValueError("odd"))),
            Check("last", lambda: "fine too"),
        ]
    )
    assert list(found) == [
        Finding("good", "ok", "fine"),
        Finding("ours", "broken", "it died"),
        Finding("worry", "warn", "tight"),
        Finding("any", "broken", "ValueError: odd"),
        Finding("last", "ok", "fine too"),
    ]


def test_the_engine_plays_headless() -> None:
    assert "8 decisions" in check_engine(SCENARIOS["defend_the_center"])


def test_the_versions_that_decide_what_data_is() -> None:
    told = check_versions()
    assert all(name in told for name in ("python ", "vizdoom 1.3.", "ray ", "pyarrow "))


def test_an_output_that_cannot_be_written_is_broken(tmp_path: Path) -> None:
    assert "can be written" in check_output(str(tmp_path / "runs"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(UsageError, match="taken"):
        check_output(str(tmp_path / "taken" / "runs"))


def test_shared_memory_that_is_missing_or_short_is_a_worry(tmp_path: Path) -> None:
    assert "1 engines want 76 MiB" in check_shared_memory(1, tmp_path)
    with pytest.raises(Worry, match="--shm-size"):
        check_shared_memory(10**9, tmp_path)
    with pytest.raises(Worry, match="is not there"):
        check_shared_memory(1, tmp_path / "absent")


@pytest.mark.slow
def test_a_sound_machine_gets_one_good_line_a_check(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--json"]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [f["check"] for f in found] == ["versions", "engine", "engine", "output", "shared memory", "ray"]
    assert {f["state"] for f in found} <= {"ok", "warn"}


@pytest.mark.slow
def test_a_broken_thing_makes_it_exit_with_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing listens at port 1, and the output is a file."""
    (tmp_path / "taken").write_text("mine")
    assert main(["doctor", "--out", str(tmp_path / "taken"), "--address", "127.0.0.1:1"]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("broken")] == ["output:", "ray:"]
