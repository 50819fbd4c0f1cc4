"""Where a command's work happens: in this process, or on Ray. Ray is imported only when it is wanted.

with Place(config.pool, config.address) as place:
    pool = place.rollout_pool(prepared, signals)                 # plays
    with place.side_pipeline(wish, folder, lease, signals) as pipeline: ...     # judges
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from actors.capacity import Share
from actors.cluster import Cluster, ClusterSettings
from actors.opening import Wish, open_ray_pool
from grading.lines import Bench, LocalBench, SideWish, make_pipeline
from grading.pipeline import SidePipeline
from rollouts.commands.preparing import Prepared
from rollouts.commits import SideCommits
from rollouts.doom.engine_home import sweep_shared_memory
from rollouts.pools.local_pool import LocalPool
from rollouts.pools.patience import Limits
from rollouts.pools.players import MakeWorker
from rollouts.pools.pool import Pool
from rollouts.pools.wear import Wear
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.scratch import sweep_scratch
from rollouts.signals import Signals


class Place:
    """`kind` is `local` or `ray`, `address` that of a cluster to join (None: RAY_ADDRESS, else a Ray of our own).

    Ray is joined or started when the first pool is made, and left when the place is closed.
    """

    def __init__(self, kind: str, address: str | None = None) -> None:
        self.kind = kind
        self._address = address
        self._cluster: Cluster | None = None
        self._plays = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def rollout_pool(self, prepared: Prepared, signals: Signals) -> Pool:
        """The run's pool, ready to start workers. Errors: `UsageError` where the cluster cannot hold what is asked."""
        self._plays = True
        if self.kind == "local":
            return _local_pool(prepared, signals)
        wish = _wish(prepared)
        wish.share.check()
        cluster = self._ray(signals)
        workers = _with_servers(prepared, cluster, signals) if prepared.config.policy_server else _workers(prepared)
        return open_ray_pool(workers, wish, cluster)

    def side_pipeline(self, wish: SideWish, folder: RunFolder, lease: Lease, signals: Signals) -> SidePipeline:
        """The lines that judge, to be entered; `lease` is the run's. Give it what is owed with `add_owed`."""
        bench: Bench
        if self.kind == "local" or not wish.order.uses_model:
            bench = LocalBench(wish)
        else:
            self._ray(signals)
            from actors.side_lanes import RayBench  # noqa: PLC0415  imports Ray

            bench = RayBench(wish)
        return make_pipeline(wish, bench, SideCommits(SideFolder(folder), lease), signals, self._plays)

    def close(self) -> None:
        """Leave Ray; one of our own ends with all its actors. Idempotent."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def _ray(self, signals: Signals) -> Cluster:
        if self._cluster is None:
            with signals.obeyed_at_once():
                self._cluster = Cluster(ClusterSettings(self._address))
            signals.install()
        return self._cluster


def make_pool(prepared: Prepared, signals: Signals) -> Pool:
    """A pool that nobody shares a Ray with: its `close` leaves that too. Errors: as `Place.rollout_pool`."""
    if prepared.config.pool == "local":
        return _local_pool(prepared, signals)
    with signals.obeyed_at_once():
        pool = open_ray_pool(_workers(prepared), _wish(prepared))
    signals.install()
    return pool


def _workers(prepared: Prepared) -> MakeWorker:
    return MakeWorker(prepared.order, prepared.folder.storage.uri)


def _with_servers(prepared: Prepared, cluster: Cluster, signals: Signals) -> MakeWorker:
    """Workers whose policies are held by servers, once these have loaded."""
    from actors.policy_server import Serving, start_servers  # noqa: PLC0415  imports Ray

    config, order = prepared.config, prepared.order
    serving = Serving(
        order,
        prepared.facts.batched,
        config.policy_server_gpus,
        config.policy_server_batch,
        config.policy_server_wait_ms / 1000,
    )
    with signals.obeyed_at_once():
        servers = start_servers(config.policy_server, serving, cluster.nodes(), cluster.grows())
    signals.install()
    return MakeWorker(replace(order, server=servers), prepared.folder.storage.uri)


def _local_pool(prepared: Prepared, signals: Signals) -> Pool:
    config = prepared.config
    with suppress(OSError):
        sweep_shared_memory()
        sweep_scratch()
    wear = Wear(config.recycle_after, config.recycle_above_mb)
    return LocalPool(_workers(prepared).here(), signals, Limits().stall_s, wear, config.unit_timeout_s)


def _wish(prepared: Prepared) -> Wish:
    config = prepared.config
    return Wish(
        ClusterSettings(config.address),
        config.actors,
        Share(config.cpus_per_actor, config.gpus_per_actor),
        config.recycle_after,
        config.recycle_above_mb,
    )


def check_place(prepared: Prepared) -> None:
    """Every node must mean the same folder by a local path. Errors: `UsageError` naming the nodes that do not."""
    if prepared.config.pool == "ray":
        from actors.node_check import check_nodes_see  # noqa: PLC0415  imports Ray

        check_nodes_see(prepared.folder)
