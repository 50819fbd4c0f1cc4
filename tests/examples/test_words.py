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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--steps", "0"), "--steps 0: must be 1 or above"),
        (("--save", "nowhere/words.safetensors"), "--save nowhere/words.safetensors: there is no folder"),
        (("--scenario", "predict_position"), "invalid choice: 'predict_position'"),  # it has no teacher
    ],
)
def test_what_cannot_be_learned_or_kept_is_told_before(
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from examples.words import main as learn_from

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        learn_from(["teacher", *words])
    assert told in capsys.readouterr().err
