"""Networks from ONNX files: what they answer, and what is said where they do not fit."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rollouts.errors import UsageError
from rollouts.policies.base import Question
from rollouts.policies.network import NetworkPolicy
from rollouts.policies.registry import make_policy
from rollouts.records import Frame, Snapshot
from rollouts.scenarios.registry import SCENARIOS
from tests.doubles import COUNTING
from tests.onnx_files import count_words, mean_colour

pytestmark = pytest.mark.slow

DEFEND = SCENARIOS["defend_the_center"]
OPTIONS = DEFEND.options
TEXT = json.dumps({"observes": "text", "buckets": 64, "length": 6, "options": list(OPTIONS)})


def refusal(spec: str, scenario: object = DEFEND, gpus: float | None = None) -> str:
    with pytest.raises(UsageError) as told:
        make_policy(spec, scenario, gpus)  # type: ignore[arg-type]
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("size", [("h", "w"), (240, 320), (30, 40)])
def test_scores_become_probabilities(size: tuple[int | str, int | str], tmp_path: Path, red_snapshot: Snapshot) -> None:
    """Red is (1, 0, 0), also where it is made smaller: with the weights (2, 1, 1) the scores are 2, 0, 0."""
    policy = make_policy(f"onnx:{mean_colour(tmp_path / 'c.onnx', size, weight=(2, 1, 1))}", DEFEND)
    answer = policy.act(red_snapshot, "", OPTIONS, None)
    assert answer.choice == "attack"
    assert answer.confidence == pytest.approx(math.exp(2) / (math.exp(2) + 2))
    assert red_snapshot.frame is not None
    assert (red_snapshot.frame.pixels == (255, 0, 0)).all()


def test_words(tmp_path: Path) -> None:
    """Two words and a full stop make three; what is longer than six is cut."""
    policy = make_policy(f"onnx:{count_words(tmp_path / 'w.onnx', 6, {'doom_rollouts': TEXT})}", DEFEND)
    for text, score in (("Monster near.", 3), ("a b c d e f g h", 6), ("", 0)):
        share = math.exp(score) / (math.exp(score) + 2)
        assert policy.act(Snapshot(0), text, OPTIONS, None).probabilities["attack"] == pytest.approx(share)


@pytest.mark.parametrize("batch", ["n", 1])
def test_a_batch_answers_as_one_by_one(batch: int | str, tmp_path: Path) -> None:
    policy = make_policy(f"onnx:{mean_colour(tmp_path / 'c.onnx', batch=batch)}", DEFEND)
    assert isinstance(policy, NetworkPolicy)
    rng = np.random.default_rng(0)
    frames = [Frame(rng.integers(0, 256, (24, 32, 3)).astype(np.uint8)) for _ in range(5)]
    questions = [Question(Snapshot(0, frame=frame), "", OPTIONS, None) for frame in frames]
    for one, asked in zip(policy.act_batch(questions), questions, strict=True):
        other = policy.act(asked.snapshot, "", OPTIONS, None)
        assert one.choice == other.choice
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)


def test_who_it_is(tmp_path: Path) -> None:
    one, other = (
        make_policy(f"onnx:{mean_colour(tmp_path / 'c.onnx', weight=(w, 1, 1))}", DEFEND).describe() for w in (1, 2)
    )
    assert (one.name, one.kind) == ("onnx:c", "model")
    assert one.checkpoint_hash is not None
    assert one.checkpoint_hash != other.checkpoint_hash


def test_files_that_are_none(tmp_path: Path) -> None:
    assert f'"{tmp_path}/no.onnx" on ' in refusal(f"onnx:{tmp_path}/no.onnx")
    (tmp_path / "a.onnx").write_bytes(b"not at all")
    assert "'a.onnx' cannot be loaded" in refusal(f"onnx:{tmp_path}/a.onnx")
    assert "needs a file: onnx:PATH.onnx" in refusal("onnx")


def test_weights_outside_the_file_are_refused(tmp_path: Path) -> None:
    import onnx

    path = mean_colour(tmp_path / "c.onnx")
    apart = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(onnx.load(path), path, **apart)
    assert (tmp_path / "weights.bin").exists()
    assert "'c.onnx' cannot be loaded" in refusal(f"onnx:{path}")


def test_what_does_not_fit(tmp_path: Path) -> None:
    path = mean_colour(tmp_path / "c.onnx", (30, 40))
    assert "gives 3 scores, but there are 2 options: stay, down" in refusal(f"onnx:{path}", COUNTING)
    (tmp_path / "c.json").write_text(json.dumps({"options": ["attack", "jump", "turn left"]}))
    assert "knows the options attack, jump, turn left; scenario 'defend_the_center' has" in refusal(f"onnx:{path}")
    (tmp_path / "c.json").write_text(json.dumps({"frame_size": [84, 84]}))
    assert "input is [None, 3, 30, 40]: must be (n, 3, height, width) for frames" in refusal(f"onnx:{path}")
    words = count_words(tmp_path / "w.onnx", 6)
    assert "or (n, length) with a card that says observes, buckets and length" in refusal(f"onnx:{words}")
    four = mean_colour(tmp_path / "four.onnx", batch=4)
    assert "takes 4 decisions at once: leave that open, or make it 1" in refusal(f"onnx:{four}")


def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("there is a GPU here")
    path = mean_colour(tmp_path / "c.onnx")
    assert "was given 0.5 of a GPU, but onnxruntime" in refusal(f"onnx:{path}", DEFEND, 0.5)
