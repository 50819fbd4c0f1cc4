"""Makes the pool that a run asks for. Ray is imported only when it is wanted."""

from __future__ import annotations

from contextlib import suppress

from actors.capacity import Share
from actors.cluster import ClusterSettings
from actors.opening import Wish, open_ray_pool
from rollouts.commands.preparing import Prepared
from rollouts.doom.engine_home import sweep_shared_memory
from rollouts.pools.local_pool import LocalPool
from rollouts.pools.patience import Limits
from rollouts.pools.players import MakeWorker
from rollouts.pools.pool import Pool
from rollouts.pools.wear import Wear
from rollouts.scratch import sweep_scratch
from rollouts.signals import Signals


def make_pool(prepared: Prepared, signals: Signals) -> Pool:
    """The run's pool, ready to start workers. Errors: `UsageError` where the cluster cannot hold what is asked for."""
    config, make = prepared.config, MakeWorker(prepared.order, prepared.folder.storage.uri)
    if config.pool == "local":
        with suppress(OSError):
            sweep_shared_memory()
            sweep_scratch()
        wear = Wear(config.recycle_after, config.recycle_above_mb)
        return LocalPool(make.here(), signals, Limits().stall_s, wear, config.unit_timeout_s)
    wish = Wish(
        ClusterSettings(config.address),
        config.actors,
        Share(config.cpus_per_actor, config.gpus_per_actor),
        config.recycle_after,
        config.recycle_above_mb,
    )
    pool = open_ray_pool(make, wish)
    signals.install()
    return pool


def check_place(prepared: Prepared) -> None:
    """Every node must mean the same folder by a local path. Errors: `UsageError` naming the nodes that do not."""
    if prepared.config.pool == "ray":
        from actors.node_check import check_nodes_see  # noqa: PLC0415  imports Ray

        check_nodes_see(prepared.folder)
