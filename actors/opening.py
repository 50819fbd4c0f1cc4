"""From wishes to a pool of actors: join or start Ray, and see what fits. Imports Ray only when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from actors.capacity import Share, choose_actors
from actors.cluster import Cluster, ClusterSettings
from actors.placement import Placement, matching
from rollouts.errors import UsageError
from rollouts.pools.players import MakePlayer
from rollouts.pools.pool import Pool

ONE_CPU = Share(cpus=1.0, gpus=0.0)


@dataclass(frozen=True)
class Wish:
    """What is asked of Ray. `actors` None: as many as fit, but no more than are `enough`.

    As many as `together` share a process. It is replaced after `most_episodes`, or above `most_mb` MiB of memory with
    its engines, for each of them. On a cluster that is joined actors live on nodes with the `labels`; where after
    `placement_timeout_s` none has a place the pool gives up. Where that cluster has an autoscaler, it is asked for as
    many as `most`.
    """

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    actors: int | None = None
    share: Share = ONE_CPU
    most_episodes: int | None = 1_000
    most_mb: int | None = 2_000
    enough: int | None = None
    together: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    placement_timeout_s: float = 600.0
    most: int = 1_000

    def placement(self, cluster: Cluster) -> Placement:
        return Placement(cluster.nodes, self.share, self.labels, self.placement_timeout_s)

    def check_labels(self) -> None:
        """Errors: UsageError for labels where no cluster would be joined."""
        if self.labels and not self.cluster.joins:
            label = "=".join(next(iter(self.labels.items())))
            raise UsageError(
                f"--node-label {label} is for a cluster that is joined: give its --address, for a Ray of our own is "
                "this one machine"
            )


def open_ray_pool(
    make: MakePlayer, wish: Wish, cluster: Cluster | None = None, forget: Callable[[str], None] = lambda _name: None
) -> Pool:
    """A pool on `cluster`; without one, the pool's `close` also ends a Ray of our own. Nothing is started in it yet.

    `forget` is told of lost actors.

    Errors: UsageError where Ray cannot be reached, or where its nodes can never hold what is asked for.
    """
    wish.share.check()
    wish.check_labels()
    if cluster is not None:
        return _ray_pool(make, wish, cluster, None, forget)
    own = Cluster(wish.cluster)
    try:
        return _ray_pool(make, wish, own, own.close, forget)
    except BaseException:
        own.close()
        raise


def _ray_pool(
    make: MakePlayer,
    wish: Wish,
    cluster: Cluster,
    on_close: Callable[[], None] | None,
    forget: Callable[[str], None],
) -> Pool:
    slots, most = _slots(wish, cluster)
    from actors.ray_pool import RayPool  # noqa: PLC0415  Ray must see the cluster's settings first

    return RayPool(
        make,
        slots,
        wish.share,
        wish.most_episodes,
        wish.most_mb,
        together=wish.together,
        placement=None if cluster.is_own else wish.placement(cluster),
        most=most,
        on_close=on_close,
        forget=forget,
    )


def _slots(wish: Wish, cluster: Cluster) -> tuple[int, int | None]:
    """How many actors at first, and how many at most as nodes join; None where that is all.

    Where an autoscaler looks after the cluster they may all wait for nodes: that is what it goes by.
    """
    grows = cluster.grows()
    slots = choose_actors(matching(cluster.nodes(), wish.labels), wish.share, wish.actors, grows, wish.labels)
    if wish.actors is not None:
        return slots, None
    most = wish.most if wish.enough is None else min(wish.most, wish.enough)
    return (most if grows else min(slots, most)), (None if cluster.is_own else most)
