"""Runs of local networks: what is refused before anything starts, and what stands in the rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rollouts.cli import main
from rollouts.commands.preparing import prepare
from rollouts.config import load_config
from rollouts.errors import UsageError
from rollouts.store.storage import open_storage
from tests.onnx_files import mean_colour

pytestmark = pytest.mark.slow

SMALL = {"--seeds": "0:1", "--step-cap": "4", "--pool": "local", "--run-id": "r"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> int:
    """`words` and what of SMALL they do not say."""
    rest = [word for flag, value in SMALL.items() if flag not in words for word in (flag, value)]
    return main(["run", "--scenario", "defend_the_center", *rest, *words])


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line; nothing was written."""
    assert run(*words) == 2
    assert not Path("runs/r").exists()
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def test_a_run_of_an_onnx_file(capsys: pytest.CaptureFixture[str]) -> None:
    mean_colour(Path("c.onnx"), (60, 80))
    assert run("--policy", "onnx:c.onnx") == 0
    rows = pq.read_table("runs/r/steps").to_pylist()
    assert len(rows) == 4
    for row in rows:
        assert row["policy"] == "onnx:c"
        assert row["model_action"] == row["effective_action"]
        assert sum(row["probabilities"]) == pytest.approx(1)
        assert row["confidence"] == pytest.approx(max(row["probabilities"]))
        assert row["latency_ms"] > 0
    (told,) = json.loads(Path("runs/r/manifest.json").read_text())["policies"].values()
    assert len(told["checkpoint_hash"]) == 64


def test_a_network_inside_a_mixture() -> None:
    """Half of the decisions are the teacher's; what the network needs is asked of the mixture."""
    mean_colour(Path("c.onnx"), (60, 80))
    assert run("--step-cap", "30", "--policy", "mixture:0.5:onnx:c.onnx") == 0
    rows = pq.read_table("runs/r/steps").to_pylist()
    assert {row["acted_by"] for row in rows} == {"policy", "teacher"}
    assert all(sum(row["probabilities"]) == pytest.approx(1) for row in rows if row["acted_by"] == "policy")
    assert run("--policy", "mixture:0.5:onnx:c.onnx", "--frames", "none", "--run-id", "s") == 2


def test_a_network_is_played_again_from_the_same_file_alone(capsys: pytest.CaptureFixture[str]) -> None:
    mean_colour(Path("c.onnx"), (60, 80))
    assert run("--policy", "onnx:c.onnx") == 0
    assert main(["verify", "runs/r", "--replay", "1"]) == 0
    assert "1 episode played again" in capsys.readouterr().out
    mean_colour(Path("c.onnx"), (60, 80), weight=(1, 2, 3))
    main(["verify", "runs/r", "--replay", "1"])
    assert "the checkpoint of policy 'onnx:c.onnx' is no longer the one that played" in "".join(capsys.readouterr())


def test_other_weights_are_another_run(capsys: pytest.CaptureFixture[str]) -> None:
    mean_colour(Path("c.onnx"))
    assert run("--policy", "onnx:c.onnx") == 0
    mean_colour(Path("c.onnx"), weight=(1, 2, 3))
    assert run("--policy", "onnx:c.onnx") == 2
    assert "policies.onnx:c.onnx.checkpoint_hash is" in capsys.readouterr().err


def test_what_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    mean_colour(Path("c.onnx"))
    Path("w.pth").write_bytes(b"")
    assert "which can run code" in refused(capsys, "--policy", "torch:w.pth")
    assert f'"{Path.cwd()}/models/p.onnx" on ' in refused(capsys, "--policy", "onnx:models/p.onnx")
    line = refused(capsys, "--policy", "onnx:c.onnx", "--frames", "none")
    assert "policy 'onnx:c.onnx' looks at frames: --frames must not be \"none\"" in line


@pytest.mark.parametrize(
    ("policy", "lacks"),
    [("torch:w.safetensors", "torch"), ("onnx:c.onnx", "onnxruntime"), ("transformers:lm", "transformers")],
)
def test_an_extra_that_is_not_installed(
    policy: str, lacks: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if policy.startswith("transformers"):
        pytest.importorskip("torch", reason="torch is an extra, and is looked for first")
    monkeypatch.setitem(sys.modules, lacks, None)  # as if it were not installed
    line = refused(capsys, "--policy", policy)
    extra = policy.partition(":")[0]
    assert f"policy '{policy}' needs {lacks}, which is not installed: pip install 'doom-rollouts[{extra}]'" in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--policy-server", "1"), "--policy-server needs --pool ray"),
        (("--policy-server", "-1"), "--policy-server is -1: must be a whole number from 0"),
        (("--policy-server-wait-ms", "-2"), "--policy-server-wait-ms is -2: must be 0 or above"),
        (("--policy-server-batch", "0"), "--policy-server-batch is 0: must be a whole number from 1"),
        (("--policy-server-gpus", "1.5"), "--policy-server-gpus is 1.5: above 1 it must be a whole number"),
        (
            ("--pool", "ray", "--policy-server", "1", "--gpus-per-actor", "0.5"),
            "--gpus-per-actor is for actors that hold a network of their own: with --policy-server, give the servers "
            "theirs with --policy-server-gpus",
        ),
    ],
)
def test_what_is_wrong_about_a_server(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(capsys, *words)


def test_every_scenario_of_the_run_has_to_fit(capsys: pytest.CaptureFixture[str]) -> None:
    mean_colour(Path("c.onnx"))
    Path("c.json").write_text(json.dumps({"options": ["attack", "turn left", "turn right"]}))
    line = refused(capsys, "--scenario", "health_gathering", "--policy", "onnx:c.onnx")
    assert "scenario 'health_gathering' has move forward" in line


def test_two_policies_of_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        mean_colour(Path(folder, "c.onnx"))
    line = refused(capsys, "--policy", "onnx:a/c.onnx", "--policy", "onnx:b/c.onnx")
    assert "policies 'onnx:a/c.onnx' and 'onnx:b/c.onnx' both call themselves 'onnx:c': keep one, or rename one" in line


def test_a_checkpoint_that_a_worker_lacks_or_has_otherwise(tmp_path: Path) -> None:
    """R6: on the driver's machine it is there. Here the worker looks after it is gone, and after it changed."""
    mean_colour(Path("c.onnx"))
    wished = {"scenarios": "defend_the_center", "policies": "onnx:c.onnx", "out": str(tmp_path / "runs")}
    prepared = prepare(load_config(wished, None, {}), open_storage(tmp_path / "runs"))
    scenario = prepared.config.scenario("defend_the_center")
    prepared.order.open_policy("onnx:c", scenario, 0.0)
    mean_colour(Path("c.onnx"), weight=(1, 2, 3))
    with pytest.raises(UsageError, match=r"policy 'onnx:c.onnx': the checkpoint on .* is another \(sha256"):
        prepared.order.open_policy("onnx:c", scenario, 0.0)
    Path("c.onnx").unlink()
    with pytest.raises(UsageError, match=f'"{tmp_path}/c.onnx" on .*: No such file'):
        prepared.order.open_policy("onnx:c", scenario, 0.0)
