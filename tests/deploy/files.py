"""The cluster files, and what they share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = "deploy/kubernetes/cluster.yaml"
IMAGE = re.compile(
    r"YOUR_REGISTRY/doom-rollouts:(?P<version>[\d.]+)-ray(?P<ray>[\d.]+)-py(?P<python>\d+)-(?P<flavour>cpu|cu128)"
)
LLM_IMAGE = re.compile(r"rayproject/ray-llm:(?P<ray>[\d.]+)-py(?P<python>\d+)-(?P<flavour>cu128)")
FLAVOURS = {"head": "cpu", "cpu": "cpu", "gpu": "cu128"}
EVERYWHERE = {
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


def project_version() -> str:
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def faulty_image(node: str, image: str) -> list[str]:
    """Whether a kind of node has the image that it needs, of the pinned versions."""
    if node == "llm":
        found = LLM_IMAGE.fullmatch(image)
        right = found is not None and found.groups() == (pins()["ray"], "311", "cu128")
    else:
        found = IMAGE.fullmatch(image)
        right = found is not None and found.groups() == (project_version(), pins()["ray"], "311", FLAVOURS[node])
    return [] if right else [f"image of {node}"]


def broken(name: str, path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """A copy of a file with `value` (or what a function makes of what was there) at `path`."""
    config: dict[str, Any] = json.loads(json.dumps(read(name)))  # what anchors share is no longer shared
    place: Any = config
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value(place[path[-1]]) if isinstance(value, Callable) else value  # type: ignore[arg-type]
    return config
