"""Rows as a torch dataset: split over ranks and loader workers, shuffled anew each pass, resumable within one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from torch import distributed
from torch.utils.data import IterableDataset, get_worker_info

from rollouts.errors import UsageError
from rollouts.loading.order import Even, PassOrder, Place, rank_rows, worker_rows
from rollouts.loading.rows import Rows
from rollouts.loading.stream import read_chunks
from rollouts.loading.torch_items import Item, batch_item, row_items
from rollouts.loading.torch_passes import Pass, PassCount
from rollouts.loading.torch_shared import SharedTensors

Transform = Callable[[Item], Any]
MIXED_GROUPS = 16
"""Row groups whose rows are shuffled among themselves: at most 64 MB of pictures as stored."""
_ROWS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Reading:
    """How the rows are read. `batch_size` None: an item is a row; else so many rows, a worker's last perhaps fewer."""

    batch_size: int | None
    shuffle: bool
    seed: int
    even: Even
    rank: int
    world_size: int


@dataclass(frozen=True, slots=True)
class _Position:
    """`done` rows of a pass were given by this worker of `workers`."""

    epoch: int = 0
    worker: int = 0
    workers: int = 1
    done: int = 0


class TorchRows(IterableDataset[Any]):  # type: ignore[misc]  # torch may be missing
    """Items of rows in the order of a pass (rollouts/loading/order.py). Each iteration is a pass.

    An item is a dict: `frame` is a uint8 tensor (3, H, W) or (B, 3, H, W), RGB. Of a batch, numbers and flags are
    tensors of (B,), all else, and whole numbers and flags of which some are null, is a list. Of a row they are as
    Python has them. A number that is null is nan. `transform` gets each item in the worker; what it returns is given.
    """

    def __init__(self, rows: Rows, reading: Reading, transform: Transform | None) -> None:
        super().__init__()
        self._rows = rows
        self._reading = reading
        self._transform = transform
        self._passes = PassCount()
        self._stored: Mapping[int, int] = {}
        self._stored_workers = 1
        self._resumed: int | None = None
        self._at = _Position()

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is None:
            self._at = self._position(self._passes.next, 0, 1)
            return self._pass_here()
        self._at = self._position(self._passes.begin(), worker.id, worker.num_workers)
        return self._items(self._at, handed_on=self._transform is None)

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass the one of that number, from 0. Without it each pass takes the next number."""
        if self._passes.next != Pass(epoch, resumes=True):
            self._passes.set_next(Pass(epoch))
            self._at, self._resumed = _Position(epoch), None

    def rows_on_rank(self) -> int:
        """How many rows a pass gives on this rank, all its workers together."""
        place = Place(self._reading.rank, self._reading.world_size)
        return len(rank_rows(self._rows.total, self._reading.even, place))

    def state_dict(self) -> dict[str, Any]:
        """Where the pass stands in this process; in a loader's worker, of that worker (torchdata's protocol)."""
        return self._state(self._at.epoch, self._at.workers, {self._at.worker: self._at.done})

    def state_after(self, batches: int, num_workers: int = 0, batch_size: int | None = None) -> dict[str, Any]:
        """Where the pass that began last stands once a plain `DataLoader` has given `batches` batches of it.

        Of a resumed pass those count that were given since. `batch_size` is the loader's, where the items are rows.
        Errors: `UsageError`.
        """
        size = self._reading.batch_size or batch_size
        if size is None:
            raise UsageError("state_after needs the batch_size of the DataLoader, for the items are rows")
        workers = max(1, num_workers)
        epoch = self._passes.last
        before = [self._done(worker, workers) if epoch == self._resumed else 0 for worker in range(workers)]
        rows = [len(self._stretch(worker, workers)) for worker in range(workers)]
        given = given_in_turns([-(-(n - done) // size) for n, done in zip(rows, before, strict=True)], batches)
        done = {worker: min(rows[worker], before[worker] + given[worker] * size) for worker in range(workers)}
        return self._state(epoch, workers, done)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next pass the rest of a stored one. Errors: `UsageError` where rows or settings are others."""
        for name, now in self._identity().items():
            if state.get(name) != now:
                raise UsageError(f"the stored position is of another reading: {name} {state.get(name)!r}, now {now!r}")
        self._stored = {int(worker): int(done) for worker, done in state["done"].items()}
        self._stored_workers = int(state["workers"])
        first = next(iter(self._stored))
        self._at = _Position(int(state["epoch"]), first, self._stored_workers, self._stored[first])
        self._resumed = self._at.epoch
        self._passes.set_next(Pass(self._at.epoch, resumes=True))

    def _pass_here(self) -> Iterator[Any]:
        """A pass without workers. It counts from its first item on: loaders make iterators that they never use."""
        at = self._position(self._passes.begin(), 0, 1)
        yield from self._items(at, handed_on=False)
        self._at = _Position(at.epoch + 1)

    def _items(self, at: _Position, handed_on: bool) -> Iterator[Any]:
        """What is left of a pass from `at` on; frames in shared memory where they are handed on to another process."""
        reading, stretch, done = self._reading, self._stretch(at.worker, at.workers), at.done
        order = PassOrder(self._rows.counts, MIXED_GROUPS if reading.shuffle else 0, reading.seed, at.epoch)
        wanted = range(stretch.start + done, stretch.stop)
        make = partial(batch_item, empty=SharedTensors().empty) if handed_on else batch_item
        for chunk in read_chunks(self._rows, order, wanted, reading.batch_size or _ROWS_AT_ONCE):
            items = row_items(chunk) if reading.batch_size is None else iter((make(chunk),))
            for item in items:
                done += 1 if reading.batch_size is None else len(chunk.window)
                self._at = _Position(at.epoch, at.worker, at.workers, done)
                yield item if self._transform is None else self._transform(item)

    def _position(self, begun: Pass, worker: int, workers: int) -> _Position:
        return _Position(begun.epoch, worker, workers, self._done(worker, workers) if begun.resumes else 0)

    def _stretch(self, worker: int, workers: int) -> range:
        place = Place(self._reading.rank, self._reading.world_size, worker, workers)
        return worker_rows(self._rows.total, self._reading.even, place)

    def _done(self, worker: int, workers: int) -> int:
        if workers != self._stored_workers or worker not in self._stored:
            held = f"of workers {sorted(self._stored)} of {self._stored_workers}"
            raise UsageError(f"the stored position is {held}, and this is worker {worker} of {workers}")
        return self._stored[worker]

    def _state(self, epoch: int, workers: int, done: Mapping[int, int]) -> dict[str, Any]:
        return {**self._identity(), "epoch": epoch, "workers": workers, "done": dict(done)}

    def _identity(self) -> dict[str, Any]:
        """What a position means nothing without."""
        return {"rows": self._rows.total, "rows_sha256": self._rows.digest, **asdict(self._reading)}


def given_in_turns(items: Sequence[int], total: int) -> list[int]:
    """How many of its `items` each worker has given when all have given `total`: they take turns, as long as each has
    some (the order of torch's `DataLoader`)."""
    given = [0] * len(items)
    while total > 0 and given != list(items):
        for worker, most in enumerate(items):
            if total > 0 and given[worker] < most:
                given[worker] += 1
                total -= 1
    return given


def torch_rows(rows: Rows, reading: Mapping[str, Any], transform: Transform | None) -> TorchRows:
    """The dataset. `reading` holds the fields of `Reading`, rank and world size None where torch knows them.

    Errors: `UsageError`.
    """
    if not rows.total:
        raise UsageError("there is no row to train on: nothing is committed yet, or no row passes the filters")
    rank, world_size = _whereabouts(reading["rank"], reading["world_size"])
    settings = Reading(**{**reading, "rank": rank, "world_size": world_size})
    _check(settings)
    if settings.even == "drop" and rows.total < world_size:
        raise UsageError(f"even 'drop' leaves none of {rows.total} rows to {world_size} ranks: give 'repeat' or 'none'")
    return TorchRows(rows, settings, transform)


def _whereabouts(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if distributed.is_available() and distributed.is_initialized():
        known = (distributed.get_rank(), distributed.get_world_size())
    else:
        known = (int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    if (rank is None) != (world_size is None):
        raise UsageError(f"rank {rank!r} and world_size {world_size!r}: give both, or neither")
    return known if rank is None or world_size is None else (rank, world_size)


def _check(reading: Reading) -> None:
    if not 0 <= reading.rank < reading.world_size:
        raise UsageError(f"rank {reading.rank} of a world of {reading.world_size}: give 0 to world_size - 1")
    if reading.batch_size is not None and reading.batch_size < 1:
        raise UsageError(f"batch_size {reading.batch_size}: give a number from 1, or None for single rows")
    if reading.even not in ("none", "drop", "repeat"):
        raise UsageError(f"even {reading.even!r}: give 'none', 'drop' or 'repeat'")
    if reading.seed < 0:
        raise UsageError(f"seed {reading.seed}: give a number from 0")
