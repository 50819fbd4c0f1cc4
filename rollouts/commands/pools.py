"""Where a command's work happens: in this process, or on Ray. Ray is imported only when it is wanted.

with Place(config.pool, config.address) as place:
    pool = place.rollout_pool(prepared, signals)                 # plays
    with place.side_pipeline(wish, folder, lease, signals) as pipeline: ...     # judges
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from actors.capacity import Share
from actors.cluster import Cluster, ClusterSettings
from actors.opening import Wish, open_ray_pool
from grading.lines import Bench, LocalBench, SideWish, make_pipeline
from grading.pipeline import SidePipeline
from rollouts.calls.limits import LimiterStatus
from rollouts.calls.limits import Limits as CallLimits
from rollouts.calls.run_limiter import LocalRunLimiter, RunLimiter
from rollouts.commands.preparing import Prepared
from rollouts.commits import SideCommits
from rollouts.doom.engine_home import sweep_shared_memory
from rollouts.meters import NO_METERS, Meters
from rollouts.plan import make_plan
from rollouts.pools.local_pool import LocalPool
from rollouts.pools.patience import Limits
from rollouts.pools.players import MakeWorker, OpenLimiter
from rollouts.pools.pool import Pool
from rollouts.pools.wear import Wear
from rollouts.run.lease import Lease
from rollouts.run.run_folder import RunFolder
from rollouts.run.side_folder import SideFolder
from rollouts.scratch import sweep_scratch
from rollouts.signals import Signals

if TYPE_CHECKING:
    from actors.governor import GovernedRun

CPUS_OF_A_WAITER = 0.125
"""Of a second that a model behind an endpoint takes to answer, the engine and the row take a few milliseconds: what
bounds eight actors a CPU is memory, where each has a process (some 160 MB, engine included)."""

MOST_ACTORS = 1_000
"""On a cluster that grows, where nobody says how many."""


class Place:
    """`kind` is `local` or `ray`, `address` that of a cluster to join (None: RAY_ADDRESS, else a Ray of our own, whose
    metrics are at `metrics_port`, if anywhere).

    Ray is joined or started when the first pool is made, and left when the place is closed.
    """

    def __init__(self, kind: str, address: str | None = None, metrics_port: int | None = None) -> None:
        self.kind = kind
        self._settings = ClusterSettings(address, metrics_port=metrics_port)
        self._cluster: Cluster | None = None
        self._local = LocalRunLimiter()
        self._governed: GovernedRun | None = None
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
            return _local_pool(prepared, signals, self._local)
        wish = _wish(prepared)
        wish.share.check()
        wish.check_labels()
        cluster = self._ray(signals)
        governed = self._governor()
        workers = replace(_workers(prepared, governed.opener), meters=self.meters(prepared.run_id))
        if prepared.config.policy_server:
            workers = _with_servers(workers, prepared, cluster, signals)
        return open_ray_pool(workers, wish, cluster, governed.forget)

    def begin_calls(self, limits: CallLimits) -> None:
        """Let models be called from now on, within `limits`; all calls of the run share them."""
        run_limiter: RunLimiter = self._local if self.kind == "local" else self._governor()
        run_limiter.begin(limits)

    def side_pipeline(self, wish: SideWish, folder: RunFolder, lease: Lease, signals: Signals) -> SidePipeline:
        """The lines that judge, to be entered; `lease` is the run's. Give it what is owed with `add_owed`."""
        bench: Bench
        if self.kind == "local" or not wish.order.uses_model:
            bench = LocalBench(wish, self._local)
        else:
            self._ray(signals)
            from actors.side_lanes import RayBench  # noqa: PLC0415  imports Ray

            bench = RayBench(wish, self._governor())
        return make_pipeline(wish, bench, SideCommits(SideFolder(folder), lease), signals, self._plays)

    def meters(self, run_id: str) -> Meters:
        """Who watches the run. Only once its pools are made: before, nobody does."""
        if self._cluster is None or not self._cluster.collects_metrics:
            return NO_METERS
        from actors.ray_meters import RayMeters  # noqa: PLC0415  imports Ray

        return RayMeters(run_id)

    @property
    def metrics_url(self) -> str | None:
        """Where a Ray of our own is scraped, if anywhere."""
        return None if self._cluster is None else self._cluster.metrics_url

    def calls(self) -> LimiterStatus | None:
        """How calls to models stand, as was known a moment ago; None where none was allowed yet."""
        return self._local.status() if self._governed is None else self._governed.status()

    def close(self) -> None:
        """Leave Ray; one of our own ends with all its actors. Idempotent."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def _governor(self) -> GovernedRun:
        """Only once Ray is up."""
        if self._governed is None:
            from actors.governor import GovernedRun  # noqa: PLC0415  imports Ray

            self._governed = GovernedRun()
        return self._governed

    def _ray(self, signals: Signals) -> Cluster:
        if self._cluster is None:
            with signals.obeyed_at_once():
                self._cluster = Cluster(self._settings)
            signals.install()
        return self._cluster


def make_pool(prepared: Prepared, signals: Signals) -> Pool:
    """A pool that nobody shares a Ray with: its `close` leaves that too; for policies that call no models.

    Errors: as `Place.rollout_pool`.
    """
    if prepared.config.pool == "local":
        return _local_pool(prepared, signals, None)
    with signals.obeyed_at_once():
        pool = open_ray_pool(_workers(prepared), _wish(prepared))
    signals.install()
    return pool


def _workers(prepared: Prepared, limiter: OpenLimiter | None = None) -> MakeWorker:
    return MakeWorker(prepared.order, prepared.folder.storage.uri, limiter)


def _with_servers(workers: MakeWorker, prepared: Prepared, cluster: Cluster, signals: Signals) -> MakeWorker:
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
        placement = replace(_wish(prepared), share=Share(0.0, config.policy_server_gpus)).placement(cluster)
        servers = start_servers(config.policy_server, serving, placement, cluster.grows())
    signals.install()
    return replace(workers, order=replace(order, server=servers))


def _local_pool(prepared: Prepared, signals: Signals, limiter: OpenLimiter | None) -> Pool:
    config = prepared.config
    with suppress(OSError):
        sweep_shared_memory()
        sweep_scratch()
    wear = Wear(config.recycle_after, config.recycle_above_mb)
    return LocalPool(_workers(prepared, limiter).here(), signals, Limits().stall_s, wear, config.unit_timeout_s)


def _wish(prepared: Prepared) -> Wish:
    config = prepared.config
    return Wish(
        ClusterSettings(config.address),
        config.actors,
        Share(_cpus_per_actor(prepared), config.gpus_per_actor),
        config.recycle_after,
        config.recycle_above_mb,
        prepared.grading.in_flight if _only_waits(prepared) else None,
        _together(prepared),
        config.labels,
        config.placement_timeout_s,
        min(MOST_ACTORS, len(make_plan(prepared.groups, config.episodes_per_unit))),
    )


def _together(prepared: Prepared) -> int:
    """Actors of one process: those that only wait share one for each CPU, in which code and caches are warm."""
    cpus = _cpus_per_actor(prepared)
    return max(1, int(1 / cpus)) if _only_waits(prepared) and not prepared.config.gpus_per_actor else 1


def _cpus_per_actor(prepared: Prepared) -> float:
    """As told; else one for each actor, unless all that is played waits for models."""
    if prepared.config.cpus_per_actor is not None:
        return prepared.config.cpus_per_actor
    return CPUS_OF_A_WAITER if _only_waits(prepared) else 1.0


def _only_waits(prepared: Prepared) -> bool:
    """Whether each decision is a call: actors beyond the requests that may be in flight would only wait for a turn."""
    return all(group.costs_a_call for group in prepared.groups)


def check_place(prepared: Prepared) -> None:
    """Every node must mean the same folder by a local path. Errors: `UsageError` naming the nodes that do not."""
    if prepared.config.pool == "ray":
        from actors.node_check import check_nodes_see  # noqa: PLC0415  imports Ray

        check_nodes_see(prepared.folder)
