"""A torch dataset as a `DataLoader` reads it, without its processes: each worker in turn, in this very one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data._utils import worker as torch_worker

from rollouts.loading.torch_rows import TorchRows

_LOADERS = itertools.count(10**6, 10**3)


@contextmanager
def as_worker(number: int, of: int, loader: int) -> Iterator[None]:
    """What torch tells a dataset in worker `number`; one `loader` is one pass. With `of` 0 there are no workers."""
    if of:
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=number, num_workers=of, seed=loader + number, dataset=None
        )
    try:
        yield
    finally:
        torch_worker._worker_info = None


def one_pass(dataset: TorchRows, workers: int = 0) -> list[list[Any]]:
    """The items of a pass, worker by worker."""
    return [items for items, _ in one_pass_in_parts(dataset, workers, None)]


def one_pass_in_parts(
    dataset: TorchRows, workers: int, stops: list[int] | None, states: list[dict[str, Any]] | None = None
) -> list[tuple[list[Any], dict[str, Any]]]:
    """Each worker's first items of a pass (all where `stops` is None), and its state then. With `states` each worker
    first loads its own, as torchdata's loader does it."""
    loader = next(_LOADERS)
    done = []
    for number in range(workers or 1):
        with as_worker(number, workers, loader):
            if states is not None:
                dataset.load_state_dict(states[number])
            items = list(itertools.islice(iter(dataset), None if stops is None else stops[number]))
            done.append((items, dataset.state_dict()))
    return done
