"""The files for `ray up`, as Ray's launcher reads them, and what they must keep to. Nothing is launched."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.deploy.files import EVERYWHERE, broken, faulty_image, read

LAUNCHED = ("cluster.yaml", "deploy/gcp.yaml", "deploy/on_premise.yaml")
GROWING = LAUNCHED[:2]
SPOT = {"aws": {"InstanceMarketOptions": {"MarketType": "spot"}}, "gcp": {"scheduling": [{"preemptible": True}]}}
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN_PATH": "/home/ray/.ray/auth_token",
    **EVERYWHERE,
}


def faults(config: dict[str, Any]) -> list[str]:
    """What is wrong with a file, but for its schema."""
    options = config["docker"]["run_options"]
    told = dict(option.removeprefix("--env ").split("=", 1) for option in options if option.startswith("--env "))
    head, worker = " ".join(config["head_start_ray_commands"]), " ".join(config["worker_start_ray_commands"])
    wrong = {
        "environment": told != ENVIRONMENT,
        "token": config["file_mounts"] != {ENVIRONMENT["RAY_AUTH_TOKEN_PATH"]: "~/.ray/auth_token"},
        "shared memory": "--shm-size=8g" not in options,
        "logs": not any("max-size" in option for option in options),
        "dashboard": "--dashboard-host=127.0.0.1" not in head,
        "head plays": "--num-cpus=0 --num-gpus=0" not in head,
        "address": "--address=$RAY_HEAD_IP:6379" not in worker,
        "setup": config["setup_commands"] != [] or config["head_setup_commands"] != [],
    }
    found = [name for name, is_wrong in wrong.items() if is_wrong]
    return found + faulty_image("head", config["docker"]["image"]) + _faulty_types(config, worker)


def _faulty_types(config: dict[str, Any], worker: str) -> list[str]:
    provider, types = config["provider"]["type"], config.get("available_node_types", {})
    if provider == "local":
        told = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
        labels = re.findall(r"--labels=(\S+)", " ".join(told))
        return [] if labels == ["rollouts.node=head", "rollouts.node=cpu"] else ["labels"]
    found = [] if set(types) == {"head", "cpu", "gpu", "llm"} else ["kinds"]
    if types[config["head_node_type"]]["resources"].get("CPU") != 0:
        found.append("head plays")
    for name, node in types.items():
        if node["labels"] != {"rollouts.node": name}:
            found.append(f"label of {name}")
        if name != config["head_node_type"]:
            found += _faulty_worker(name, node, provider, config["docker"]["image"])
    return found + ([] if f"actors.preemption {provider}" in worker else ["preemption"])


def _faulty_worker(name: str, node: dict[str, Any], provider: str, image: str) -> list[str]:
    wrong = {
        f"minimum of {name}": node["min_workers"] != 0,
        f"spot of {name}": not SPOT[provider].items() <= node["node_config"].items(),
        f"resources of {name}": name == "llm" and (node["resources"]["CPU"], node["resources"]["llm"]) != (0, 1),
    }
    mine = node.get("docker", {}).get("worker_image", image)
    return [fault for fault, is_wrong in wrong.items() if is_wrong] + faulty_image(name, mine)


@pytest.mark.parametrize("name", LAUNCHED)
def test_rays_launcher_takes_it(name: str) -> None:
    validate_config(prepare_config(read(name)))


@pytest.mark.parametrize("name", LAUNCHED)
def test_it_keeps_to_what_we_promise(name: str) -> None:
    assert faults(read(name)) == []


@pytest.mark.parametrize("name", LAUNCHED)
@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("docker", "run_options", 0), "--shm-size=64m", "shared memory"),
        (("docker", "run_options", 2), "--ulimit core=0", "logs"),
        (("docker", "run_options", 3), "--env RAY_AUTH_MODE=disabled", "environment"),
        (("docker", "run_options", 7), "--env RAY_JOB_STOP_WAIT_TIME_S=3", "environment"),
        (("docker", "image"), "rayproject/ray:latest", "image of head"),
        (("docker", "image"), lambda image: image.replace("2.60.0", "2.59.0"), "image of head"),
        (("docker", "run_options", 5), "--env RAY_ROTATION_MAX_BYTES=0", "environment"),
        (("file_mounts",), {}, "token"),
        (("head_start_ray_commands", 1), lambda told: told.replace("127.0.0.1", "0.0.0.0"), "dashboard"),
        (("head_start_ray_commands", 1), lambda told: told.replace("--num-cpus=0", ""), "head plays"),
        (("worker_start_ray_commands", 1), "ray start", "address"),
        (("setup_commands",), ["pip install vizdoom==1.3.2"], "setup"),
    ],
)
def test_a_broken_copy_is_found(name: str, path: tuple[str | int, ...], value: object, fault: str) -> None:
    assert fault in faults(broken(name, path, value))


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("available_node_types", "head", "resources"), {}, "head plays"),
        (("available_node_types",), lambda kinds: {kind: kinds[kind] for kind in ("head", "cpu", "gpu")}, "kinds"),
        (("available_node_types", "gpu", "min_workers"), 1, "minimum of gpu"),
        (("available_node_types", "gpu", "labels"), {}, "label of gpu"),
        (("available_node_types", "gpu", "docker"), {}, "image of gpu"),
        (("available_node_types", "llm", "docker", "worker_image"), "rayproject/ray-llm:latest", "image of llm"),
        (("available_node_types", "llm", "resources"), {"CPU": 16, "GPU": 1, "llm": 1}, "resources of llm"),
        (("available_node_types", "cpu", "node_config"), {}, "spot of cpu"),
        (("worker_start_ray_commands",), ["ray start --address=$RAY_HEAD_IP:6379"], "preemption"),
    ],
)
def test_a_broken_kind_of_node_is_found(name: str, path: tuple[str | int, ...], value: object, fault: str) -> None:
    assert faults(broken(name, path, value)) == [fault]


def test_workers_of_ones_own_without_a_label_are_found() -> None:
    told = broken("deploy/on_premise.yaml", ("worker_start_ray_commands", 1), "ray start --address=$RAY_HEAD_IP:6379")
    assert faults(told) == ["labels"]
