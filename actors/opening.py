"""From wishes to a pool of actors: join or start Ray, and see what fits. Imports Ray only when it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.capacity import Share, choose_actors
from actors.cluster import Cluster, ClusterSettings
from rollouts.pools.players import MakePlayer
from rollouts.pools.pool import Pool

ONE_CPU = Share(cpus=1.0, gpus=0.0)


@dataclass(frozen=True)
class Wish:
    """What is asked of Ray. `actors` None: as many as fit, but no more than are `enough`.

    As many as `together` share a process. It is replaced after `most_episodes`, or above `most_mb` MiB of memory with
    its engines, for each of them.
    """

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    actors: int | None = None
    share: Share = ONE_CPU
    most_episodes: int | None = 1_000
    most_mb: int | None = 2_000
    enough: int | None = None
    together: int = 1


def open_ray_pool(
    make: MakePlayer, wish: Wish, cluster: Cluster | None = None, forget: Callable[[str], None] = lambda _name: None
) -> Pool:
    """A pool on `cluster`; without one, the pool's `close` also ends a Ray of our own. Nothing is started in it yet.

    `forget` is told of lost actors.

    Errors: UsageError where Ray cannot be reached, or where its nodes can never hold what is asked for.
    """
    wish.share.check()
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
    slots = choose_actors(cluster.nodes(), wish.share, wish.actors, cluster.grows())
    if wish.actors is None and wish.enough is not None:
        slots = min(slots, wish.enough)
    from actors.ray_pool import RayPool  # noqa: PLC0415  Ray must see the cluster's settings first

    limits = (wish.most_episodes, wish.most_mb)
    return RayPool(make, slots, wish.share, *limits, together=wish.together, on_close=on_close, forget=forget)
