"""Classes that are no policies: what is said of each, in one line, before anybody plays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rollouts.cli import main
from rollouts.errors import UsageError
from rollouts.policies.registry import make_policy
from tests.doubles import COUNTING

HEAD = """
from rollouts.records import Answer, PolicyDescription
class Good:
    def act(self, snapshot, text, options, instructions):
        return Answer(options[0])
    def describe(self):
        return PolicyDescription("good", "model")
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a class `Mine` into a module of its own; its spec."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "mine", None)

    def write(code: str) -> str:
        (tmp_path / "mine.py").write_text(HEAD + code)
        monkeypatch.delitem(sys.modules, "mine")
        return "mine:Mine"

    return write


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "class Mine:\n    def describe(self): ...",
            "policy 'mine:Mine' has none of act(snapshot, text, options, instructions), act_batch(questions), "
            "predict_choice(text, options, instructions): it needs one of them, beside describe()",
        ),
        (
            "class Mine:\n    def act(self, snapshot, text, options, instructions): ...",
            "policy 'mine:Mine' has no describe(): it must return a rollouts.records.PolicyDescription",
        ),
        (
            "class Mine(Good):\n    def act(self, text: str): ...",
            "policy 'mine:Mine': act must take (snapshot, text, options, instructions), but it is act(text)",
        ),
        (
            "class Mine(Good):\n    def reset(self): ...",
            "policy 'mine:Mine': reset must take (key, rng), but it is reset()",
        ),
        (
            "class Mine(Good):\n    async def act(self, snapshot, text, options, instructions): ...",
            "policy 'mine:Mine': act is async: it must be a plain function",
        ),
        (
            "class Mine(Good):\n    def __init__(self, path): ...",
            "policy 'mine:Mine': its constructor must take no arguments, but it is Mine(path)",
        ),
        (
            "class Mine(Good):\n    def describe(self): return {'name': 'x'}",
            "policy 'mine:Mine': describe() returned dict, not a rollouts.records.PolicyDescription",
        ),
        (
            "class Mine(Good):\n    def describe(self): raise KeyError('name')",
            "policy 'mine:Mine': describe() raised KeyError: 'name'",
        ),
        (
            "class Mine(Good):\n    def describe(self): return PolicyDescription('', 'model')",
            "policy 'mine:Mine': describe() gives the name '': must be a text",
        ),
        (
            "class Mine:\n    describe = Good.describe\n    def act_batch(self, questions): ...\n"
            "    def reset(self, key, rng): ...",
            "policy 'mine:Mine' has reset(key, rng), which only one with act(…) is told: add act",
        ),
        (
            "class Mine(Good):\n    def act(self, snapshot, text, options, instructions) -> str: ...",
            "policy 'mine:Mine': act is declared to return str: it must return a rollouts.records.Answer",
        ),
        (
            "class Mine(Good):\n    def act_batch(self, questions) -> 'dict': ...",
            "policy 'mine:Mine': act_batch is declared to return dict: it must return one rollouts.records.Answer a "
            "question",
        ),
    ],
)
def test_what_is_missing_is_said(written: Any, code: str, says: str) -> None:
    with pytest.raises(UsageError) as told:
        make_policy(written(code), COUNTING)
    assert str(told.value) == says


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("{'at': {1}}", "TypeError: Object of type set is not JSON serializable"),
        ("{'lr': float('nan')}", "ValueError: Out of range float values are not JSON compliant"),
        ("None", "TypeError: 'NoneType' object is not a mapping"),
    ],
)
def test_settings_are_plain_json(written: Any, settings: str, says: str) -> None:
    code = f"class Mine(Good):\n    def describe(self): return PolicyDescription('m', 'rule', settings={settings})"
    with pytest.raises(UsageError) as told:
        make_policy(written(code), COUNTING)
    assert str(told.value) == (
        "policy 'mine:Mine': describe() gives settings that are not plain JSON, and they are part of what a run is: "
        + says
    )


@pytest.mark.parametrize(
    "code",
    [
        "class Mine(Good): pass",
        "class Mine(Good):\n    def act(self, *anything): return Answer('a')",
        "class Mine(Good):\n    def __init__(self, path='x'): ...\n    def reset(self, key, rng, more=None): ...",
        "class Mine:\n    describe = Good.describe\n    def predict_choice(self, text, options, told=None): ...",
    ],
)
def test_what_can_be_called_will_do(written: Any, code: str) -> None:
    assert make_policy(written(code), COUNTING).describe().name == "good"


def test_an_extra_that_a_module_lacks_is_named(written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    spec = written("import torch\nclass Mine(Good): pass")
    with pytest.raises(UsageError, match=r"cannot import 'mine' .*; pip install 'doom-rollouts\[torch\]'$"):
        make_policy(spec, COUNTING)


TEXT_ONLY = "class Mine:\n    describe = Good.describe\n    def predict_choice(self, text, options, instructions): "


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "class Mine(Good):\n    def __init__(self): raise ValueError('bad weights path X')",
            "cannot be made: ValueError: bad weights path X",
        ),
        (
            "class Mine(Good):\n    def __init__(self): raise SystemExit(3)",
            "cannot be made: SystemExit: 3",
        ),
        (
            "class Mine(Good):\n    def close(self): raise OSError('gone')",
            "cannot be looked at: OSError: gone",
        ),
        (
            TEXT_ONLY + "return options[0]",
            "the answer is none: TypeError: it answered with a str, not a rollouts.records",
        ),
        (
            TEXT_ONLY + "return None",
            "the answer is none: TypeError: it answered with a NoneType, not a rollouts.records",
        ),
        (TEXT_ONLY + "return Answer(options[0], confidence='high')", "TypeError: confidence is str, not"),
        (TEXT_ONLY + "return Answer(options[0], ['a'])", "the answer is none: AttributeError"),
    ],
)
@pytest.mark.parametrize("form", ["mine:Mine", "mixture:0.5:mine:Mine"])
def test_what_only_making_and_asking_it_shows_is_one_line_before_anything_starts(
    written: Any, capsys: pytest.CaptureFixture[str], form: str, code: str, says: str
) -> None:
    written(code)
    words = ("--scenario", "defend_the_center", "--pool", "local", "--frames", "none", "--run-id", "r")
    assert main(["run", "--policy", form, *words]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert says in line
    assert f"policy '{form}'" in line
    assert not Path("runs/r").exists()


@pytest.mark.slow
def test_one_that_raises_or_answers_with_no_option_when_it_is_tried_out_plays(written: Any) -> None:
    """An exception of its own and a choice that is none are data, at the start as in a game."""
    words = (
        "--scenario",
        "defend_the_center",
        "--seeds",
        "0:1",
        "--step-cap",
        "3",
        "--pool",
        "local",
        "--grade",
        "none",
    )
    for number, code in enumerate(("return Answer('fly')", "raise ValueError('no')"), 1):
        spec = written(TEXT_ONLY + code)
        assert main(["run", "--policy", spec, *words, "--frames", "none", "--run-id", f"r{number}"]) == 1
        assert Path(f"runs/r{number}/episodes").exists()


def test_a_dry_run_asks_nothing(written: Any) -> None:
    spec = written(TEXT_ONLY + "return options[0]")
    assert main(["run", "--policy", spec, "--pool", "local", "--dry-run"]) == 0


def test_a_policy_that_needs_a_gpu_says_so_before_anything_starts(
    written: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = written("class Mine(Good):\n    needs_gpu = True")
    assert main(["run", "--policy", spec, "--pool", "local", "--frames", "none", "--run-id", "r"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "policy 'mine:Mine' needs a GPU: give it a part of one with --gpus-per-actor, such as 0.25" in line
    assert not Path("runs").exists() or not Path("runs/r").exists()
