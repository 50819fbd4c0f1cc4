"""Networks from safetensors: what they answer, and what is said where they do not fit."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from rollouts.errors import UsageError
from rollouts.policies.base import PolicyContext, Question
from rollouts.policies.network import NetworkPolicy
from rollouts.policies.network_card import NetworkCard
from rollouts.policies.registry import make_policy
from rollouts.records import Frame, Snapshot
from rollouts.scenarios.registry import SCENARIOS
from tests.doubles import COUNTING

torch = pytest.importorskip("torch", reason="torch is an extra")
safetensors_torch = pytest.importorskip("safetensors.torch", reason="safetensors is an extra")

pytestmark = pytest.mark.slow
DEFEND = SCENARIOS["defend_the_center"]
OPTIONS = ("attack", "turn left", "turn right")


def save(network: object, card: NetworkCard, path: Path) -> Path:
    from rollouts.policies.torch_architectures import save_network

    save_network(network, card, path)
    return path


def conv(path: Path, options: tuple[str, ...] = OPTIONS, size: tuple[int, int] | None = (60, 80)) -> Path:
    from rollouts.policies.torch_architectures import build

    card = NetworkCard("conv", "frame", options, size, settings={"widths": [4, 8], "hidden": 16})
    torch.manual_seed(1)
    return save(build(card, len(options)), card, path)


def tokens(path: Path, options: tuple[str, ...] = OPTIONS) -> Path:
    from rollouts.policies.torch_architectures import build

    card = NetworkCard("tokens", "text", options, buckets=512, length=24, settings={"width": 8})
    torch.manual_seed(2)
    return save(build(card, len(options)), card, path)


def mean_colour(path: Path, weight: tuple[float, ...] = (1.0, 1.0, 1.0)) -> str:
    safetensors_torch.save_file({"weight": torch.tensor(weight)}, path)
    return f"torch:{path}@tests.torch_networks:MeanColour"


def question(snapshot: Snapshot, text: str = "A monster is far left.") -> Question:
    return Question(snapshot, text, OPTIONS, None)


def refusal(spec: str, scenario: object = DEFEND, gpus: float | None = None) -> str:
    with pytest.raises(UsageError) as told:
        make_policy(spec, scenario, gpus)  # type: ignore[arg-type]
    message = str(told.value)
    assert "\n" not in message
    return message


def test_scores_become_probabilities(tmp_path: Path, red_snapshot: Snapshot) -> None:
    """Red is (1, 0, 0): with the weights (2, 1, 1) the scores are 2, 0, 0."""
    policy = make_policy(mean_colour(tmp_path / "c.safetensors", (2.0, 1.0, 1.0)), DEFEND)
    answer = policy.act(red_snapshot, "", OPTIONS, None)
    share = math.exp(2) / (math.exp(2) + 2)
    assert answer.choice == "attack"
    assert answer.confidence == pytest.approx(share)
    rest = (1 - share) / 2
    assert answer.probabilities == pytest.approx({"attack": share, "turn left": rest, "turn right": rest})
    assert answer.latency_ms is not None
    assert answer.latency_ms > 0


def test_options_stand_in_the_cards_order(tmp_path: Path, red_snapshot: Snapshot) -> None:
    spec = mean_colour(tmp_path / "c.safetensors")
    (tmp_path / "c.json").write_text(json.dumps({"options": ["turn right", "attack", "turn left"]}))
    assert make_policy(spec, DEFEND).act(red_snapshot, "", OPTIONS, None).choice == "turn right"


def test_in_place_work_harms_no_frame_and_warns_of_nothing(tmp_path: Path, red_snapshot: Snapshot) -> None:
    """R9: a read-only frame, as it comes out of the object store or a shard."""
    policy = make_policy(mean_colour(tmp_path / "c.safetensors", (0.5, 1.0, 1.0)), DEFEND)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (policy.act(red_snapshot, "", OPTIONS, None) for _ in range(2))
    assert first.probabilities == second.probabilities
    assert red_snapshot.frame is not None
    assert (red_snapshot.frame.pixels == (255, 0, 0)).all()


@pytest.mark.parametrize("make", [conv, tokens])
def test_a_batch_answers_as_one_by_one(make: object, tmp_path: Path) -> None:
    policy = make_policy(f"torch:{make(tmp_path / 'n.safetensors')}", DEFEND)  # type: ignore[operator]
    assert isinstance(policy, NetworkPolicy)
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (240, 320, 3)).astype(np.uint8) for _ in range(9)]
    questions = [question(Snapshot(0, frame=Frame(f)), f"Monster {n} is left.") for n, f in enumerate(frames)]
    together = policy.act_batch(questions)
    alone = [policy.act(q.snapshot, q.text, q.options, None) for q in questions]
    for one, other in zip(together, alone, strict=True):
        assert one.choice == other.choice
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
        assert sum(one.probabilities.values()) == pytest.approx(1)
    assert len({a.probabilities["attack"] for a in alone}) > 1


def test_a_palette_frame_is_the_same_as_its_rgb(tmp_path: Path) -> None:
    policy = make_policy(f"torch:{conv(tmp_path / 'n.safetensors')}", DEFEND)
    rng = np.random.default_rng(0)
    palette, indices = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((256, 3), (240, 320)))
    answers = [
        policy.act(Snapshot(0, frame=frame), "", OPTIONS, None)
        for frame in (Frame(indices, palette), Frame(palette[indices]))
    ]
    assert answers[0].probabilities == answers[1].probabilities


def test_who_it_is(tmp_path: Path) -> None:
    import hashlib

    path = conv(tmp_path / "small.safetensors")
    who = make_policy(f"torch:{path}", DEFEND).describe()
    assert (who.name, who.kind, who.model) == ("torch:small", "model", "conv")
    content = hashlib.sha256(path.read_bytes()).digest()
    assert who.checkpoint_hash == hashlib.sha256(b"small.safetensors\0" + content).hexdigest()
    assert str(tmp_path) not in json.dumps(dict(who.settings))


def test_other_weights_have_another_hash(tmp_path: Path) -> None:
    hashes = set()
    for weight in (1.0, 2.0):
        spec = mean_colour(tmp_path / "c.safetensors", (weight, 1.0, 1.0))
        hashes.add(make_policy(spec, DEFEND).describe().checkpoint_hash)
    assert len(hashes) == 2


@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.bin", "w.pkl", "w.ckpt", "w.torchscript"])
def test_what_can_run_code_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    message = refusal(f"torch:{tmp_path / name}")
    assert f"'{name}' is a pickle or TorchScript, which can run code when it is read" in message
    assert "save the weights as .safetensors" in message


def test_files_that_are_none(tmp_path: Path) -> None:
    assert f'"{tmp_path}/no.safetensors" on ' in refusal(f"torch:{tmp_path}/no.safetensors")
    (tmp_path / "a.safetensors").write_bytes(b"not at all")
    assert "'a.safetensors' is no safetensors file" in refusal(f"torch:{tmp_path}/a.safetensors")
    (tmp_path / "a.txt").write_bytes(b"")
    assert "'a.txt' must be a .safetensors file" in refusal(f"torch:{tmp_path}/a.txt")
    assert "needs a checkpoint: torch:PATH.safetensors" in refusal("torch")


def test_a_checkpoint_without_a_card(tmp_path: Path) -> None:
    safetensors_torch.save_file({"weight": torch.ones(3)}, tmp_path / "c.safetensors")
    message = refusal(f"torch:{tmp_path}/c.safetensors")
    assert 'nothing says what network this is: give an architecture in the file\'s metadata or in "c.json"' in message


def test_weights_of_another_shape(tmp_path: Path) -> None:
    path = conv(tmp_path / "n.safetensors")
    weights = safetensors_torch.load_file(path)
    card = NetworkCard("conv", "frame", OPTIONS, settings={"widths": [4, 8], "hidden": 32})
    safetensors_torch.save_file(weights, path, metadata={"doom_rollouts": card.as_json()})
    assert "head.0.weight is (16, 192) in the checkpoint, (32, 192) in a network with 3 options" in refusal(
        f"torch:{path}"
    )


def test_missing_and_unknown_weights(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    spec = mean_colour(path)
    safetensors_torch.save_file({"wait": torch.ones(3)}, path)
    assert "the checkpoint lacks weight and has the unknown wait: these are weights of another network" in refusal(spec)


def test_another_number_of_options(tmp_path: Path) -> None:
    spec = mean_colour(tmp_path / "c.safetensors")
    assert "gives 3 scores, but there are 2 options: stay, down" in refusal(spec, COUNTING)
    spec = f"torch:{conv(tmp_path / 'n.safetensors', ('attack', 'turn left'))}"
    assert "knows the options attack, turn left; scenario 'defend_the_center' has attack, turn" in refusal(spec)


def test_a_class_that_is_no_network(tmp_path: Path) -> None:
    mean_colour(tmp_path / "c.safetensors")
    start = f"torch:{tmp_path}/c.safetensors@tests.torch_networks:"
    assert "makes a NotAModule, not a torch.nn.Module" in refusal(f"{start}NotAModule")
    assert "has no 'Nobody'" in refusal(f"{start}Nobody")
    (tmp_path / "c.json").write_text(json.dumps({"settings": {"depth": 3}}))
    assert "the network cannot be built: TypeError" in refusal(f"{start}MeanColour")


def test_a_network_that_cannot_be_run(tmp_path: Path) -> None:
    spec = mean_colour(tmp_path / "c.safetensors")
    (tmp_path / "c.json").write_text(json.dumps({"observes": "text", "length": 8}))
    assert "cannot be run on int64 (2, 8)" in refusal(spec)


def test_scores_that_are_no_numbers_are_an_error_of_the_policy(tmp_path: Path, red_snapshot: Snapshot) -> None:
    safetensors_torch.save_file({}, tmp_path / "m.safetensors")
    policy = make_policy(f"torch:{tmp_path}/m.safetensors@tests.torch_networks:Mute", DEFEND)
    with pytest.raises(ValueError, match="not all finite"):
        policy.act(red_snapshot, "", OPTIONS, None)


def test_no_frame_to_look_at(tmp_path: Path) -> None:
    policy = make_policy(f"torch:{conv(tmp_path / 'n.safetensors')}", DEFEND)
    with pytest.raises(ValueError, match="no frame to look at"):
        policy.act(Snapshot(0), "", OPTIONS, None)


def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    spec = mean_colour(tmp_path / "c.safetensors")
    assert f"was given 0.25 of a GPU, but torch {torch.__version__} sees none here" in refusal(spec, DEFEND, 0.25)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_the_same_on_a_gpu(tmp_path: Path) -> None:
    path = conv(tmp_path / "n.safetensors")
    frame = Frame(np.random.default_rng(0).integers(0, 256, (240, 320, 3)).astype(np.uint8))
    here, there = (make_policy(f"torch:{path}", DEFEND, gpus) for gpus in (0.0, 0.25))
    one, other = (policy.act(Snapshot(0, frame=frame), "", OPTIONS, None) for policy in (here, there))
    assert one.probabilities == pytest.approx(other.probabilities, abs=1e-3)


def test_context_without_gpu_is_the_cpu(tmp_path: Path, red_snapshot: Snapshot) -> None:
    from rollouts.policies.torch_network import make_torch_policy

    argument = mean_colour(tmp_path / "c.safetensors").removeprefix("torch:")
    policy = make_torch_policy(PolicyContext(DEFEND, argument, gpus=None))
    assert policy.act(red_snapshot, "", OPTIONS, None).choice == "attack"


def test_a_grid_as_fine_as_the_last_convolution_loses_no_place() -> None:
    from rollouts.policies.torch_architectures import build

    card = NetworkCard("conv", "frame", OPTIONS, (40, 156), settings={"widths": [4, 4, 4], "grid": [5, 20]})
    network = build(card, 3)
    frames = torch.rand(2, 3, 40, 156)
    with torch.inference_mode():
        convolved = network.eye[:-2](frames)
        assert convolved.shape == (2, 4, 5, 20)
        assert torch.equal(network.eye(frames), convolved.flatten(1))
        assert network(frames).shape == (2, 3)
