"""The cluster files, as Ray's launcher reads them, and what they must keep to. Nothing is launched."""

from __future__ import annotations

import re
from copy import deepcopy
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).resolve().parents[2]
LAUNCHED = ("cluster.yaml", "deploy/gcp.yaml", "deploy/on_premise.yaml")
SPOT = {"aws": {"InstanceMarketOptions": {"MarketType": "spot"}}, "gcp": {"scheduling": [{"preemptible": True}]}}
IMAGE = re.compile(r"YOUR_REGISTRY/doom-rollouts:(?P<version>[\d.]+)-ray(?P<ray>[\d.]+)-py(?P<python>\d+)")
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN_PATH": "/home/ray/.ray/auth_token",
    "RAY_ROTATION_MAX_BYTES": "50000000",
    "RAY_ROTATION_BACKUP_COUNT": "3",
    "RAY_JOB_STOP_WAIT_TIME_S": "30",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return found


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def faults(config: dict[str, Any]) -> list[str]:
    """What is wrong with a file for `ray up`, but for its schema."""
    options = config["docker"]["run_options"]
    told = dict(option.removeprefix("--env ").split("=", 1) for option in options if option.startswith("--env "))
    head, worker = " ".join(config["head_start_ray_commands"]), " ".join(config["worker_start_ray_commands"])
    wrong = {
        "environment": told != ENVIRONMENT,
        "token": config["file_mounts"] != {ENVIRONMENT["RAY_AUTH_TOKEN_PATH"]: "~/.ray/auth_token"},
        "shared memory": "--shm-size=8g" not in options,
        "logs": not any("max-size" in option for option in options),
        "image": IMAGE.fullmatch(config["docker"]["image"]) is None,
        "dashboard": "--dashboard-host=127.0.0.1" not in head,
        "head plays": "--num-cpus=0 --num-gpus=0" not in head,
        "address": "--address=$RAY_HEAD_IP:6379" not in worker,
    }
    return [name for name, is_wrong in wrong.items() if is_wrong] + _faulty_types(config, worker)


def _faulty_types(config: dict[str, Any], worker: str) -> list[str]:
    provider, types = config["provider"]["type"], config.get("available_node_types")
    if types is None:
        return [] if provider == "local" else ["node types"]
    found = []
    if types[config["head_node_type"]]["resources"].get("CPU") != 0:
        found.append("head plays")
    for name, node in types.items():
        if node["labels"] != {"rollouts.node": name}:
            found.append(f"label of {name}")
        if name != config["head_node_type"] and node["min_workers"] != 0:
            found.append(f"minimum of {name}")
        if name != config["head_node_type"] and not SPOT[provider].items() <= node["node_config"].items():
            found.append(f"spot of {name}")
    return found + ([] if f"actors.preemption {provider}" in worker else ["preemption"])


@pytest.mark.parametrize("name", LAUNCHED)
def test_rays_launcher_takes_it(name: str) -> None:
    validate_config(prepare_config(read(name)))


@pytest.mark.parametrize("name", LAUNCHED)
def test_it_keeps_to_what_we_promise(name: str) -> None:
    assert faults(read(name)) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("docker", "run_options", 0), "--shm-size=64m", "shared memory"),
        (("docker", "run_options", 3), "--env RAY_AUTH_MODE=disabled", "environment"),
        (("docker", "image"), "rayproject/ray:latest", "image"),
        (("file_mounts",), {}, "token"),
        (
            ("head_start_ray_commands", 1),
            "ray start --head --num-cpus=0 --num-gpus=0 --dashboard-host=0.0.0.0",
            "dashboard",
        ),
        (("head_start_ray_commands", 1), "ray start --head --dashboard-host=127.0.0.1", "head plays"),
        (("available_node_types", "head", "resources"), {}, "head plays"),
        (("available_node_types", "gpu", "min_workers"), 1, "minimum of gpu"),
        (("available_node_types", "cpu", "node_config", "InstanceMarketOptions"), {}, "spot of cpu"),
        (("available_node_types", "gpu", "labels"), {}, "label of gpu"),
        (("worker_start_ray_commands",), ["ray start --address=$RAY_HEAD_IP:6379"], "preemption"),
    ],
)
def test_a_broken_copy_is_found(path: tuple[str | int, ...], value: object, fault: str) -> None:
    config: Any = deepcopy(read("cluster.yaml"))
    place = config
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert faults(config) == [fault]


@pytest.mark.parametrize("name", [*LAUNCHED, "deploy/kubernetes/cluster.yaml"])
def test_image_and_versions_are_those_of_the_pins(name: str) -> None:
    text = (ROOT / name).read_text()
    images = {match.groups() for match in IMAGE.finditer(text)}
    project = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project is not None
    assert images == {(project[1], pins()["ray"], "311")}


def test_the_image_is_built_on_the_pinned_ray_with_the_pinned_packages() -> None:
    text = (ROOT / "deploy/Dockerfile").read_text()
    assert f"FROM rayproject/ray:{pins()['ray']}-py311$" in text
    assert "--constraint constraints.txt" in text
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE)[-1] == "ray"
    copied = set(re.findall(r"^COPY --chown=ray:users (\w+) \w+$", text, re.MULTILINE))
    assert copied == {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert metadata.version("ray") == pins()["ray"]


def test_no_file_holds_a_secret() -> None:
    secret = re.compile(r"(?i)sk-\w|AKIA|(api_key|password|secret|auth_token)['\"]?\s*[:=]\s*\w")
    for path in (ROOT / "cluster.yaml", *(ROOT / "deploy").rglob("*.yaml"), ROOT / "deploy/Dockerfile"):
        assert not secret.search(path.read_text()), path


def test_the_kubernetes_cluster_keeps_to_what_we_promise() -> None:
    spec = read("deploy/kubernetes/cluster.yaml")["spec"]
    assert spec["rayVersion"] == pins()["ray"]
    assert (spec["authOptions"], spec["enableInTreeAutoscaling"]) == ({"mode": "token"}, True)
    head, workers = spec["headGroupSpec"], spec["workerGroupSpecs"]
    assert (head["rayStartParams"]["num-cpus"], head["rayStartParams"]["num-gpus"]) == ("0", "0")
    assert [(group["groupName"], group["minReplicas"], group["replicas"]) for group in workers] == [
        ("cpu", 0, 0),
        ("gpu", 0, 0),
    ]
    for group in (head, *workers):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        told = {one["name"]: one["value"] for one in container["env"]}
        assert told.items() == {k: v for k, v in ENVIRONMENT.items() if "AUTH" not in k}.items()
        assert container["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
        assert pod["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]
    for group in workers:
        (container,) = group["template"]["spec"]["containers"]
        assert group["rayStartParams"] == {"labels": f"rollouts.node={group['groupName']}"}
        assert "actors.preemption now" in " ".join(container["lifecycle"]["preStop"]["exec"]["command"])
        asks_gpu = "nvidia.com/gpu" in container["resources"]["limits"]
        assert asks_gpu == (group["groupName"] == "gpu")


def test_the_kubernetes_job_is_a_run_on_that_cluster() -> None:
    job, cluster = read("deploy/kubernetes/job.yaml"), read("deploy/kubernetes/cluster.yaml")
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    assert "backoffLimit" not in job["spec"], "KubeRay refuses it beside a clusterSelector"
    assert job["spec"]["entrypoint"].startswith("rollouts run --scenario published ")
    assert "--out s3://" in job["spec"]["entrypoint"]
