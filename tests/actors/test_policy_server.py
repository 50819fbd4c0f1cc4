"""Policy servers: the class alone, with real actors that ask, and in whole runs where one dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from actors.capacity import Node, Share
from actors.cluster import Cluster, ClusterSettings
from actors.placement import Placement
from rollouts.commands.preparing import Prepared, prepare
from rollouts.config import load_config
from rollouts.errors import PolicyError, RunStopped, TryVoid, UsageError
from rollouts.policies.base import Question
from rollouts.policies.registry import make_policy
from rollouts.policies.server_messages import pack_question, read_outcome
from rollouts.pools.pool import Failure
from rollouts.records import Answer, Frame, Snapshot
from rollouts.store.storage import open_storage
from tests import language_models
from tests.console import Started, left_over, rollouts, scratch_left
from tests.onnx_files import mean_colour
from tests.processes import descendants
from tests.served import MARK

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
SPELLS = "tests.served:Spells"
NOWHERE = Placement(list, Share(0.0, 0.0))
OPTIONS = ("attack", "turn left", "turn right")


@pytest.fixture(scope="module", autouse=True)
def cluster(ray_dir: str) -> Iterator[Cluster]:
    cluster = Cluster(ClusterSettings(cpus=2, temp_dir=ray_dir))
    yield cluster
    cluster.close()


def prepared(out: Path, *policies: str) -> Prepared:
    wished = {"scenarios": "defend_the_center", "policies": ",".join(policies), "out": str(out), "policy_server": "1"}
    return prepare(load_config(wished, None, {}), open_storage(out))


def serving(out: Path, *policies: str) -> Any:
    from actors.policy_server import Serving

    ready = prepared(out, *policies)
    return Serving(ready.order, ready.facts.batched, gpus=0.0, most=64, wait_s=0.002)


def random_frames(n: int) -> list[Snapshot]:
    rng = np.random.default_rng(0)
    return [Snapshot(0, frame=Frame(rng.integers(0, 256, (240, 320, 3)).astype(np.uint8))) for _ in range(n)]


def test_only_what_answers_in_batches_is_served(tmp_path: Path) -> None:
    assert prepared(tmp_path, SPELLS, "oracle", "tests.served:Remembers").facts.batched == (SPELLS,)


def test_of_a_mixture_the_network_inside_is_served_and_held_once(tmp_path: Path) -> None:
    policies = (f"mixture:0.5:{SPELLS}", f"mixture:0.25:{SPELLS}", SPELLS, "mixture:0.5:random")
    assert prepared(tmp_path, *policies).facts.batched == (SPELLS,)


def test_the_class_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.policy_server import PolicyServer

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    too_long = tmp_path / ("long" * 30)
    too_long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(too_long))

    async def main() -> None:
        server = PolicyServer(serving(tmp_path, SPELLS))
        held = await server.load()
        assert isinstance(held, dict)
        assert (held[SPELLS].who.model, held[SPELLS].looks) == ("spelling", None)
        four = Question(Snapshot(0), "four", OPTIONS, None)
        assert await server.door() is None
        outcomes = await asyncio.gather(*(server.answer(SPELLS, str(n), four) for n in range(8)))
        assert [outcome.choice for outcome in outcomes if isinstance(outcome, Answer)] == ["turn left"] * 8
        assert await server.calls() == 1
        assert [await server.seat() for _ in range(3)] == [0, 1, 2]
        for message, says in (
            (b"\x80\x04K\x01.", "a question to the policy server cannot be read"),
            (pack_question("onnx:other", "me", four), f"asked for 'onnx:other', but holds {SPELLS}"),
        ):
            outcome = read_outcome(await server.reply(message))
            assert isinstance(outcome, RunStopped)
            assert says in str(outcome)
        assert read_outcome(await server.reply(pack_question(SPELLS, "me", four))) == outcomes[0]

    asyncio.run(main())
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_a_server_that_cannot_load_says_why(tmp_path: Path) -> None:
    """The checkpoint is another one than the run was started with."""
    from actors.policy_server import PolicyServer, start_servers

    order = serving(tmp_path, f"onnx:{mean_colour(tmp_path / 'c.onnx')}")
    mean_colour(tmp_path / "c.onnx", weight=(1, 2, 3))
    failure = asyncio.run(PolicyServer(order).load())
    assert isinstance(failure, Failure)
    assert failure.kind == "systemic"
    with pytest.raises(UsageError, match=r"the policy server cannot load: policy 'onnx:.*c.onnx': the checkpoint on"):
        start_servers(1, order, NOWHERE, False)


def test_more_gpus_than_there_are(tmp_path: Path) -> None:
    from actors.policy_server import start_servers

    order = replace(serving(tmp_path, SPELLS), gpus=0.5)
    with pytest.raises(UsageError, match=r"--policy-server 3 with --policy-server-gpus 0.5: .* 1 GPUs, .* room for 2"):
        start_servers(3, order, Placement(lambda: [Node("a", 4, 1)], Share(0.0, 0.5)), False)


@pytest.fixture
def asker(tmp_path: Path) -> Any:
    """What a rollout actor is given, for a network that sees small frames."""
    from actors.policy_server import start_servers

    return start_servers(2, serving(tmp_path, f"onnx:{mean_colour(tmp_path / 'c.onnx', (60, 80))}"), NOWHERE, False)


@pytest.fixture(params=["straight", "through Ray"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A server of this machine is asked straight away; one of another machine has no door here."""
    if request.param == "through Ray":
        monkeypatch.setattr("actors.served_policy.SocketLine", _no_door)
    return str(request.param)


def _no_door(path: str, patience_s: float) -> None:
    raise FileNotFoundError(path)


@pytest.mark.usefixtures("way")
def test_served_answers_are_those_of_ones_own_network(tmp_path: Path, asker: Any) -> None:
    ready = prepared(tmp_path, f"onnx:{tmp_path / 'c.onnx'}")
    scenario = ready.config.scenario("defend_the_center")
    own = make_policy(f"onnx:{tmp_path / 'c.onnx'}", scenario)
    assert asker.open("oracle", scenario) is None
    with closing(asker.open(f"onnx:{tmp_path / 'c.onnx'}", scenario)) as served:
        assert served.describe() == own.describe()
        for snapshot in random_frames(20):
            one, other = (policy.act(snapshot, "", OPTIONS, None) for policy in (own, served))
            assert one.choice == other.choice
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)
            assert other.latency_ms is not None
            assert other.latency_ms > 0
        with pytest.raises(PolicyError, match="ValueError: there is no frame to look at"):
            served.act(Snapshot(0), "", OPTIONS, None)


def test_the_other_kinds_of_networks_can_be_served(tmp_path: Path) -> None:
    """A network of torch that sees frames, and a language model that reads."""
    pytest.importorskip("torch", reason="torch is an extra")
    pytest.importorskip("transformers", reason="transformers is an extra")
    from actors.policy_server import start_servers
    from rollouts.policies.network_card import NetworkCard
    from rollouts.policies.torch_architectures import build, save_network

    settings = {"widths": [4, 8], "hidden": 16, "grid": [10, 40]}
    card = NetworkCard("conv", "frame", OPTIONS, (40, 160), (80, 160, 0, 320), settings=settings)
    save_network(build(card, 3), card, tmp_path / "small.safetensors")
    specs = (f"torch:{tmp_path}/small.safetensors", f"transformers:{language_models.make(tmp_path / 'lm')}")
    scenario = prepared(tmp_path, *specs).config.scenario("defend_the_center")
    servers = start_servers(1, serving(tmp_path, *specs), NOWHERE, False)
    for spec in specs:
        own = make_policy(spec, scenario)
        with closing(servers.open(spec, scenario)) as served:
            for snapshot in random_frames(5):
                one, other = (policy.act(snapshot, "monster left", OPTIONS, "turn") for policy in (own, served))
                assert one.choice == other.choice
                assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


@pytest.mark.usefixtures("way")
def test_a_killed_server_voids_the_try_and_is_back_for_the_next(tmp_path: Path, asker: Any) -> None:
    import ray

    served = asker.open(f"onnx:{tmp_path / 'c.onnx'}", None)
    (snapshot,) = random_frames(1)
    before = served.act(snapshot, "", OPTIONS, None)
    pid = ray.get(served._server.pid.remote())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(TryVoid, match="the policy server was lost and started again"):
        served.act(snapshot, "", OPTIONS, None)
    with closing(served):
        after = served.act(snapshot, "", OPTIONS, None)
    assert (after.choice, after.probabilities) == (before.choice, before.probabilities)
    assert ray.get(served._server.pid.remote()) != pid


def test_a_server_that_hangs_is_started_again(tmp_path: Path) -> None:
    from actors.policy_server import start_servers

    servers = replace(start_servers(1, serving(tmp_path, "tests.served:Hangs"), NOWHERE, False), patience_s=0.5)
    served = servers.open("tests.served:Hangs", None)
    with pytest.raises(TryVoid, match=r"gave no answer within 0\.5 s and was started again"):
        served.act(Snapshot(0), str(tmp_path / "hung"), OPTIONS, None)
    assert (tmp_path / "hung").exists()
    patient = replace(servers, patience_s=30.0)
    for _ in range(5):
        with (
            suppress(TryVoid),
            closing(patient.open("tests.served:Hangs", None)) as served,
        ):  # it may still be dying, or away
            assert served.act(Snapshot(0), str(tmp_path / "hung"), OPTIONS, None).choice in OPTIONS
            return
    raise AssertionError("it did not come back")


RUN = ("--scenario", "defend_the_center", "--seeds", "0:6", "--step-cap", "20", "--run-id", "r")
KEPT = ["seed", "tick", "state", "model_action", "effective_action", "schema_error"]
SERVED = ("--policy-server", "1", "--actors", "3", "--cpus-per-actor", "0.5", "--episodes-per-unit", "1")


def steps(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "runs/r/steps").sort_values(["seed", "tick"], ignore_index=True)


def test_a_run_whose_server_dies_is_what_an_undisturbed_run_is(tmp_path: Path) -> None:
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    for folder in (calm, wild):
        folder.mkdir()
    policy = ("--policy", "tests.served:Dies", "--frames", "none")
    rollouts(calm, "run", *RUN, *policy, "--pool", "local")
    done = rollouts(wild, "run", *RUN, *policy, *SERVED, **{MARK: str(wild / "died")})
    assert (wild / "died").exists()
    assert "the policy server was lost and started again" in done.stdout + done.stderr
    pd.testing.assert_frame_equal(steps(wild)[KEPT], steps(calm)[KEPT])
    assert len(steps(wild)) == 6 * 20
    assert set(steps(calm)["raw_reply"]).isdisjoint(steps(wild)["raw_reply"])
    assert steps(wild)["raw_reply"].nunique() <= 2


KILLED = ((1, "ray::PolicyServer"), (3, "ray::RolloutActor"), (5, "driver"))
"""What dies once so many units are committed."""


def test_wherever_it_is_killed_a_served_run_is_the_one_whose_worker_owns_its_network(
    tmp_path: Path, ray_dir: str
) -> None:
    """Also of a mixture: draws, teacher and rows are the same; only the network sits elsewhere."""
    mean_colour(tmp_path / "c.onnx", (60, 80))
    game = ("run", *RUN[:-2], "--policy", "mixture:0.5:onnx:c.onnx", "--policy", "onnx:c.onnx")
    words = (*game, *SERVED, "--run-id", "served")
    _killed(Started(tmp_path, words, {"TMPDIR": ray_dir}))
    assert scratch_left(Path(ray_dir)) == []
    rollouts(tmp_path, *words)
    rollouts(tmp_path, *game, "--pool", "local", "--run-id", "own")
    served, own = (
        pd.read_parquet(tmp_path / "runs" / run / "steps").sort_values(["policy", "seed", "tick"], ignore_index=True)
        for run in ("served", "own")
    )
    exact = [*KEPT, "policy", "asked", "acted_by", "teacher_action", "game_tic", "probabilities", "confidence"]
    pd.testing.assert_frame_equal(served[exact], own[exact], rtol=1e-6)
    asked = served[served["policy"].str.startswith("mixture")]["asked"]
    assert 40 < asked.sum() < 80 < len(asked)
    assert served["latency_ms"].notna().equals(served["asked"])


def _killed(run: Started) -> None:
    """No process of it is left."""
    for committed, name in KILLED:
        while len(list((run.folder / "runs/served/episodes").glob("part-*.parquet"))) < committed:
            assert run.process.poll() is None
            time.sleep(0.02)
        victim = run.process if name == "driver" else descendants(name, run.process.pid)[0]
        victim.kill()
    run.process.communicate()
    assert left_over(patience_s=60) == []


def test_a_mixture_cannot_hold_a_mixture_on_a_server_either(tmp_path: Path) -> None:
    nested = f"mixture:0.5:mixture:0.5:{SPELLS}"
    done = rollouts(tmp_path, "run", *RUN, "--policy", nested, "--policy-server", "1", code=2)
    assert done.stderr.count("\n") == 1
    assert f"policy '{nested}' is a mixture in a mixture" in done.stderr


def test_what_a_server_cannot_hold_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = rollouts(tmp_path, "run", *RUN, "--policy", "oracle", "--policy-server", "2", code=2)
    assert "--policy-server 2: none of the policies (oracle) can be asked in batches" in done.stderr
    assert not (tmp_path / "runs/r").exists()
