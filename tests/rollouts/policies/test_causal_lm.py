"""Local language models: what they answer, and what is said of folders that hold none."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from rollouts.errors import UsageError
from rollouts.policies.base import ActsInBatches, Question
from rollouts.policies.causal_lm import prompt_of
from rollouts.policies.registry import make_policy
from rollouts.records import Snapshot
from rollouts.scenarios.registry import SCENARIOS
from tests import language_models

pytest.importorskip("torch", reason="torch is an extra")
pytest.importorskip("transformers", reason="transformers is an extra")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
DEFEND = SCENARIOS["defend_the_center"]
OPTIONS = DEFEND.options
WORDS = 2 + 8 + len(language_models.WORDS) + 2


def question(text: str) -> Question:
    return Question(Snapshot(0), text, OPTIONS, None)


def refusal(spec: str, gpus: float | None = None) -> str:
    with pytest.raises(UsageError) as told:
        make_policy(spec, DEFEND, gpus)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_the_prompt_says_everything_in_order() -> None:
    asked = Question(Snapshot(0), "A monster is left.", OPTIONS, "Shoot monsters.")
    assert prompt_of(asked) == (
        "Shoot monsters.\n\nA monster is left.\n\nOptions:\nA. attack\nB. turn left\nC. turn right\n\n"
        "Reply with one letter."
    )


def test_scores_of_letters_become_probabilities(tmp_path: Path) -> None:
    """A, B, C have the scores 1, 3, 2 and all other words 0: shares by hand."""
    folder = language_models.make(tmp_path / "lm", bias={"A": 1.0, "B": 3.0, "C": 2.0})
    answer = make_policy(f"transformers:{folder}", DEFEND).act(Snapshot(0), "A monster is left.", OPTIONS, None)
    powers = {"attack": math.e, "turn left": math.e**3, "turn right": math.e**2}
    letters = sum(powers.values())
    assert answer.choice == "turn left"
    assert answer.probabilities == pytest.approx({option: p / letters for option, p in powers.items()}, rel=1e-3)
    assert answer.option_mass == pytest.approx(letters / (letters + WORDS - 3), rel=1e-3)
    assert answer.policy_text is not None
    assert answer.policy_text.endswith("Reply with one letter.\nAnswer:")
    assert (answer.tokens_out, answer.parse_rule) == (1, "next-token scores of the option letters")


def test_a_batch_answers_as_one_by_one(tmp_path: Path) -> None:
    """Of prompts of different lengths: what fills up the shorter ones must not count."""
    policy = make_policy(f"transformers:{language_models.make(tmp_path / 'lm')}", DEFEND)
    assert isinstance(policy, ActsInBatches)
    asked = [question("monster near left . " * n) for n in (1, 7, 2, 20)]
    for one, q in zip(policy.act_batch(asked), asked, strict=True):
        other = policy.act(q.snapshot, q.text, q.options, q.instructions)
        assert one.choice == other.choice
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
        assert one.option_mass == pytest.approx(other.option_mass, abs=1e-5)
        assert one.tokens_in == other.tokens_in


def test_who_it_is(tmp_path: Path) -> None:
    one, other = (
        make_policy(f"transformers:{language_models.make(tmp_path / 'lm', seed=seed)}", DEFEND, None).describe()
        for seed in (0, 1)
    )
    assert (one.name, one.kind, one.model) == ("transformers:lm", "model", "lm")
    assert one.checkpoint_hash != other.checkpoint_hash


def test_too_few_letters(tmp_path: Path) -> None:
    folder = language_models.make(tmp_path / "lm", letters="AB")
    assert "has tokens of its own for 2 letters; scenario 'defend_the_center' has 3" in refusal(
        f"transformers:{folder}"
    )


def test_folders_that_are_none(tmp_path: Path) -> None:
    assert f'"{tmp_path}/no" on ' in refusal(f"transformers:{tmp_path}/no")
    assert f'"{tmp_path}" has no weights: save the model as safetensors' in refusal(f"transformers:{tmp_path}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    assert "has only pytorch_model.bin, a pickle, which can run code" in refusal(f"transformers:{tmp_path}")
    assert "needs the folder of a model: transformers:FOLDER" in refusal("transformers")


def test_code_of_its_own_is_refused(tmp_path: Path) -> None:
    folder = language_models.make(tmp_path / "lm")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModelForCausalLM": "evil.Model"}}))
    (folder / "evil.py").write_text("raise SystemExit('run')")
    assert "wants code of its own to be run (auto_map in config.json)" in refusal(f"transformers:{folder}", 0.0)


@pytest.mark.parametrize("gpus", [None, 0.0])
def test_broken_and_missing_weights(tmp_path: Path, gpus: float | None) -> None:
    """Also before anybody plays."""
    from safetensors.torch import load_file, save_file

    weights = language_models.make(tmp_path / "lm") / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(weights).items() if name != "lm_head.weight"}
    save_file(kept, weights, metadata={"format": "pt"})
    assert "the model lacks lm_head.weight (1 weights in all)" in refusal(f"transformers:{tmp_path / 'lm'}", gpus)
    weights.write_bytes(b"not at all")
    assert "the model cannot be loaded" in refusal(f"transformers:{tmp_path / 'lm'}", gpus)


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = language_models.make(tmp_path / "lm")
    capfd.readouterr()
    make_policy(f"transformers:{folder}", DEFEND).act(Snapshot(0), "monster", OPTIONS, None)
    assert capfd.readouterr() == ("", "")
