"""Does a cluster let us in, and does it run what we run? Ray itself would hang at a wrong token."""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from rollouts.errors import UsageError

PROBE_S = 4.0
_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def find_token() -> None:
    """Send the token where there is one: Ray does so only in a mode that has to be set before it is imported."""
    held = any(os.environ.get(name) for name in _TOKENS) or (Path.home() / ".ray" / "auth_token").is_file()
    if held:
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def check_versions(who: str, ray_version: str | None, python_version: str | None, parts: int = 3) -> None:
    """Errors: `UsageError` where `who` runs another Ray, or another Python, than we do; None is not known. `parts` of
    Python's version count: a driver that joins must have all three, for a job its minor version is enough."""
    here = (metadata.version("ray"), platform.python_version())
    there = (ray_version or here[0], python_version or here[1])
    if (there[0], there[1].split(".")[:parts]) != (here[0], here[1].split(".")[:parts]):
        raise UsageError(
            f"{who} is {there[0]} on Python {there[1]}, and here it is {here[0]} on Python {here[1]}: "
            "both must be the same, so use the cluster's versions here"
        )


def check_lets_in(address: str) -> None:
    """Ask the cluster at `host:port` what it runs, as a driver that joins will. What is no such address, or does not
    answer, is left to the join; that may take longer than anybody waits. Errors: `UsageError` for a wrong token or
    another version.
    """
    import ray._raylet  # noqa: PLC0415  Ray reads its environment when it is imported
    from ray.exceptions import AuthenticationError, RpcError  # noqa: PLC0415

    client: Any = getattr(ray._raylet, "GcsClient")  # noqa: B009  compiled: mypy does not see it
    try:
        told = client(address=address).internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster", timeout=PROBE_S)
    except AuthenticationError:
        mode = os.environ.get("RAY_AUTH_MODE", "not set")
        raise UsageError(
            f"Ray at {address} refuses the token that is set here, or that there is none: RAY_AUTH_MODE is {mode}; the "
            "token comes from RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
        ) from None
    except (RpcError, ValueError):
        return
    with suppress(TypeError, ValueError):
        found = json.loads(told)
        check_versions(f"Ray at {address}", found.get("ray_version"), found.get("python_version"))
