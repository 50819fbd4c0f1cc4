"""The files for KubeRay, and what they must keep to. Nothing is applied."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from actors.preemption import PROVIDERS
from tests.deploy.files import EVERYWHERE, KUBERNETES, broken, faulty_image, pins, read

HEAD: tuple[str | int, ...] = ("spec", "headGroupSpec", "template", "spec")
CPU: tuple[str | int, ...] = ("spec", "workerGroupSpecs", 0)
GPU: tuple[str | int, ...] = ("spec", "workerGroupSpecs", 1, "template", "spec", "containers", 0)
SLEEP = re.compile(r"actors\.preemption now; sleep (\d+)")


def faults(config: dict[str, Any]) -> list[str]:
    """What is wrong with a RayCluster."""
    spec = config["spec"]
    head, workers = spec["headGroupSpec"], spec["workerGroupSpecs"]
    starts = head["rayStartParams"]
    wrong = {
        "version": spec["rayVersion"] != pins()["ray"],
        "token": spec.get("authOptions") != {"mode": "token"},
        "autoscaling": spec.get("enableInTreeAutoscaling") is not True,
        "head plays": (starts.get("num-cpus"), starts.get("num-gpus")) != ("0", "0"),
        "kinds": [group["groupName"] for group in workers] != ["cpu", "gpu", "llm"],
    }
    found = [name for name, is_wrong in wrong.items() if is_wrong] + _faulty_pod("head", head["template"]["spec"])
    return found + [fault for group in workers for fault in _faulty_group(group)]


def _faulty_pod(name: str, pod: dict[str, Any]) -> list[str]:
    (container,) = pod["containers"]
    wrong = {
        "environment": {one["name"]: one["value"] for one in container["env"]} != EVERYWHERE,
        "keys": container.get("envFrom") != [{"secretRef": {"name": _secret(name), "optional": True}}],
        "shared memory": pod["volumes"] != [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]
        or container["volumeMounts"] != [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    return [f"{what} of {name}" for what, is_wrong in wrong.items() if is_wrong] + faulty_image(
        name, container["image"]
    )


def _secret(name: str) -> str:
    return "doom-rollouts-llm" if name == "llm" else "doom-rollouts-keys"


def _faulty_group(group: dict[str, Any]) -> list[str]:
    name, starts, pod = group["groupName"], group["rayStartParams"], group["template"]["spec"]
    (container,) = pod["containers"]
    own = json.loads(json.loads(starts.get("resources", '"{}"')))
    wrong = {
        "minimum": (group["minReplicas"], group["replicas"]) != (0, 0),
        "label": starts.get("labels") != f"rollouts.node={name}",
        "gpu": ("nvidia.com/gpu" in container["resources"]["limits"]) == (name == "cpu"),
        "resources": name == "llm" and (own, starts.get("num-cpus")) != ({"llm": 1}, "0"),
        "drain": name != "llm" and not _drains(pod, container),
    }
    return [f"{what} of {name}" for what, is_wrong in wrong.items() if is_wrong] + _faulty_pod(name, pod)


def _drains(pod: dict[str, Any], container: dict[str, Any]) -> bool:
    """Told to go it tells Ray, and the pod lives until its work has been given back, or a stopped job has ended."""
    told = SLEEP.search(" ".join(container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])))
    needed_s = max(PROVIDERS["now"].notice_s, int(EVERYWHERE["RAY_JOB_STOP_WAIT_TIME_S"]))
    return told is not None and needed_s <= int(told[1]) < pod.get("terminationGracePeriodSeconds", 30)


def test_the_cluster_keeps_to_what_we_promise() -> None:
    assert faults(read(KUBERNETES)) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("spec", "rayVersion"), "2.59.0", "version"),
        (("spec", "authOptions"), {}, "token"),
        (("spec", "enableInTreeAutoscaling"), False, "autoscaling"),
        (("spec", "headGroupSpec", "rayStartParams", "num-cpus"), "4", "head plays"),
        ((*HEAD, "containers", 0, "image"), "rayproject/ray:latest", "image of head"),
        ((*HEAD, "volumes"), [], "shared memory of head"),
        ((*CPU, "minReplicas"), 1, "minimum of cpu"),
        ((*CPU, "rayStartParams"), {}, "label of cpu"),
        ((*CPU, "template", "spec", "containers", 0, "env"), [], "environment of cpu"),
        ((*CPU, "template", "spec", "containers", 0, "lifecycle"), {}, "drain of cpu"),
        ((*CPU, "template", "spec", "terminationGracePeriodSeconds"), 30, "drain of cpu"),
        (
            (*CPU, "template", "spec", "containers", 0, "lifecycle", "preStop", "exec", "command", 2),
            lambda told: told.replace("sleep 45", "sleep 5"),
            "drain of cpu",
        ),
        ((*CPU, "template", "spec", "volumes", 0, "emptyDir", "sizeLimit"), "64Mi", "shared memory of cpu"),
        ((*HEAD, "containers", 0, "env", 0, "value"), "0", "environment of head"),
        ((*HEAD, "containers", 0, "envFrom"), [], "keys of head"),
        ((*GPU, "image"), lambda image: image.replace("cu128", "cpu"), "image of gpu"),
        ((*GPU, "image"), lambda image: image.replace("2.60.0", "2.59.0"), "image of gpu"),
        ((*GPU, "env"), [{"name": "OPENAI_API_KEY", "value": "word"}], "environment of gpu"),
        ((*GPU, "resources", "limits"), {"cpu": "8"}, "gpu of gpu"),
        (
            ("spec", "workerGroupSpecs", 2, "rayStartParams"),
            {"labels": "rollouts.node=llm"},
            "resources of llm",
        ),
    ],
)
def test_a_broken_copy_is_found(path: tuple[str | int, ...], value: object, fault: str) -> None:
    assert faults(broken(KUBERNETES, path, value)) == [fault]


def test_the_job_is_a_run_on_that_cluster() -> None:
    job, cluster = read("deploy/kubernetes/job.yaml"), read(KUBERNETES)
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    assert "backoffLimit" not in job["spec"], "KubeRay refuses it beside a clusterSelector"
    assert job["spec"]["entrypoint"].startswith("rollouts run --scenario published ")
    assert "--out s3://" in job["spec"]["entrypoint"]
