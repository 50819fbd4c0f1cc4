"""The example that learns from text: real rows, real games with what was learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollouts.cli import main

pytest.importorskip("torch", reason="torch is an extra (train)")
SMALL = ("--scenario", "basic", "--frames", "none", "--pool", "local", "--grade", "none")


@pytest.mark.slow
def test_a_network_that_reads_does_what_the_teacher_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from examples.words import learn

    monkeypatch.chdir(tmp_path)
    assert main(["run", *SMALL, "--policy", "oracle", "--seeds", "100:110", "--run-id", "teacher"]) == 0
    assert learn("runs/teacher", "basic", Path("words.safetensors"), steps=60) < 0.5
    assert main(["run", *SMALL, "--policy", "torch:words.safetensors", "--seeds", "0:3", "--run-id", "pupil"]) == 0
    (block,) = json.loads(Path("runs/pupil/manifest.json").read_text())["results"]
    assert block["policy"] == "torch:words"
    assert block["rubric_agreement"]["agreement"] > 0.9
