"""Makes the pool that a run asks for. Ray is imported only when it is wanted."""

from __future__ import annotations

from rollouts.commands.preparing import Prepared
from rollouts.local_pool import LocalPool
from rollouts.patience import Limits
from rollouts.players import MakeWorker
from rollouts.pool import Pool
from rollouts.signals import Signals
from rollouts.wear import Wear


def make_pool(prepared: Prepared, units_owed: int, signals: Signals) -> Pool:
    """The run's pool, ready to start workers. Errors: `UsageError` where the cluster cannot hold what is asked for."""
    if prepared.config.pool == "local":
        return _local(prepared, signals)
    raise NotImplementedError(units_owed)


def _local(prepared: Prepared, signals: Signals) -> Pool:
    config = prepared.config
    return LocalPool(
        MakeWorker(prepared.order, prepared.folder.storage.uri).here(),
        signals,
        Limits().stall_s,
        Wear(config.recycle_after, config.recycle_above_mb),
    )
