"""A small run of the real engine, driven without the command line; as a program it takes the folder to write to."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from rollouts.commands.preparing import prepare
from rollouts.commits import RunCommits
from rollouts.config import load_config
from rollouts.driver import Committed, Outcome, RunEvent, drive
from rollouts.grading_config import GradingConfig
from rollouts.plan import make_plan
from rollouts.pools.patience import Limits
from rollouts.pools.players import MakeWorker
from rollouts.pools.pool import Pool
from rollouts.run.run_folder import RunFolder
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

OpenPool = Callable[[MakeWorker], Pool]


def play(
    out: Path,
    open_pool: OpenPool,
    episodes: int = 2,
    limits: Limits | None = None,
    signals: Signals | None = None,
    on_event: Callable[[RunEvent], None] = lambda _event: None,
    scenario: str = "defend_the_center",
) -> tuple[Outcome, RunFolder]:
    """`episodes` of each of two seeds, one a unit, without frames, by the oracle."""
    wished = {"scenarios": scenario, "policies": "oracle", "frames": "none", "out": str(out)}
    config = load_config(wished | {"seeds": "3,4", "episodes_per_seed": str(episodes), "step_cap": "60"}, None, {})
    storage = open_storage(out)
    prepared = prepare(config, storage, grading=GradingConfig(grade="none"))
    units = make_plan(prepared.groups, 1)
    folder = prepared.folder
    lease = folder.acquire()
    folder.create(lease, {}, units)
    pool = open_pool(MakeWorker(prepared.order, storage.uri))
    if signals is not None:
        signals.install()
    commits = RunCommits(folder, lease)
    outcome = drive(units, pool, commits, limits=limits, signals=signals, on_event=on_event)
    folder.finish(lease)
    return outcome, folder


def main() -> int:
    """Two actors and a Ray of its own, until a signal comes; says when the first unit is committed."""
    from actors.cluster import ClusterSettings
    from actors.opening import Wish, open_ray_pool

    def tell(event: RunEvent) -> None:
        if isinstance(event, Committed):
            print("committed", flush=True)

    wish = Wish(ClusterSettings(cpus=2, temp_dir=os.environ["RAY_DIR"]), actors=2)
    with Signals() as signals:
        outcome, _ = play(
            Path(sys.argv[1]), lambda make: open_ray_pool(make, wish), 500, signals=signals, on_event=tell
        )
    print(outcome.state, outcome.committed, outcome.owed, flush=True)
    return 128 + (outcome.signal or 0)


if __name__ == "__main__":
    sys.exit(main())
