"""A local path is only a place for a run if every node means the same folder by it."""

from __future__ import annotations

from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rollouts.errors import UsageError
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import open_storage

PATIENCE_S = 30.0


def check_nodes_see(folder: RunFolder, patience_s: float = PATIENCE_S) -> None:
    """Let every node look for a marker in the run folder. Errors: UsageError naming the nodes that do not see it."""
    nodes = _nodes_alive()
    if not folder.storage.is_local or len(nodes) < 2:
        return
    marker = folder.write_marker()
    blind = [name for node, name in nodes.items() if not _sees(node, folder, marker, patience_s)]
    if blind:
        raise UsageError(
            f"{folder.describe()} is not the same folder on every node: {', '.join(blind)} cannot see it; "
            "use a path that all nodes share, or an object store (--out s3://…)"
        )


def _sees(node: str, folder: RunFolder, marker: str, patience_s: float) -> bool:
    """A node that is gone by now sees nothing either, and plays nothing."""
    here = NodeAffinitySchedulingStrategy(node, soft=False)
    looked = _remote_look.options(scheduling_strategy=here).remote(folder.storage.uri, folder.run_id, marker)
    try:
        return bool(ray.get(looked, timeout=patience_s))
    except ray.exceptions.GetTimeoutError:
        return False
    except ray.exceptions.RayError:
        return node not in _nodes_alive()


def _nodes_alive() -> dict[str, str]:
    """Node id → name for people."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return {n["NodeID"]: f"{n['NodeManagerHostname']} ({n['NodeManagerAddress']})" for n in nodes if n["Alive"]}


def look(uri: str, run_id: str, marker: str) -> bool:
    """Whether the marker is there; runs on the node in question."""
    return RunFolder(open_storage(uri), run_id).sees_marker(marker)


_remote_look: Any = ray.remote(num_cpus=0, max_retries=0)(look)
